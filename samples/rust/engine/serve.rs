//! The loop: who runs, reserve, launch, commit.
use crate::kernels::Kernels;
use crate::values::*;
use quire::*;
use std::collections::VecDeque;

const MAX_RUNNING: usize = 4;
pub const BUDGET: usize = 48;
const COOLDOWN_STEPS: u32 = 4;

/// One sample of one request, from admission to its last token. The engine keeps its symbols: a preempted one starts again from them.
#[derive(Default)]
pub struct Live {
    request: usize,
    sample: u64,
    id: SequenceId,
    has_id: bool,
    pub symbols: Vec<Symbol>,
    /// `hashes[p + 1]` = h(p).
    pub hashes: Vec<u64>,
    /// Symbols that the cache has.
    given: usize,
    /// Tokens reserved, those in flight included.
    reserved: usize,
    /// Symbols at admission.
    prefill_end: usize,
    /// Symbols of the whole sequence.
    end: usize,
    /// Grows when rows in flight become void.
    epoch: u32,
    /// A second sample begins after the prompt.
    forks: bool,
    /// Results by layer and position.
    pub out: [Vec<Vec<f32>>; 3],
}

impl Live {
    fn new(request: usize, end: usize, salt: u64) -> Live {
        let rows = || vec![Vec::new(); MAX_LEN];
        Live { request, end, hashes: vec![mix(salt)], out: [rows(), rows(), rows()], ..Live::default() }
    }

    fn learn(&mut self, symbol: Symbol) {
        self.symbols.push(symbol);
        self.hashes.push(next(self.hashes[self.hashes.len() - 1], symbol));
    }
}

#[derive(Clone, Copy)]
struct Row {
    of: usize,
    epoch: u32,
    position: usize,
    tokens: usize,
}

/// A step in flight, or none, with its tables.
pub struct Record<'c> {
    step: Option<Step<'c>>,
    rows: Vec<Row>,
    batch: Batch,
}

impl Record<'_> {
    pub fn new(batch: Batch) -> Self {
        Record { step: None, rows: Vec::new(), batch }
    }
}

#[derive(Default)]
pub struct Counts {
    pub steps: usize,
    pub preemptions: usize,
    pub forks: usize,
    pub prompt: usize,
    pub reused: usize,
    pub computed: usize,
    pub generated: usize,
}

pub struct Server<'c> {
    cache: &'c Cache,
    kernels: Kernels<'c>,
    /// Every tenant's prefixes look alike to the cache: the verification must notice.
    faulty: bool,
    requests: Vec<Request>,
    ready: VecDeque<usize>,
    pub lives: Vec<Live>,
    waiting: VecDeque<usize>,
    running: Vec<usize>,
    pub finished: usize,
    cooldown: u32,
    pub counts: Counts,
    wants: Vec<Want>,
    asked: Vec<usize>,
    symbols: Vec<Symbol>,
    got: Vec<Got>,
}

impl<'c> Server<'c> {
    pub fn new(cache: &'c Cache, kernels: Kernels<'c>, faulty: bool) -> Server<'c> {
        let requests = workload();
        let ready = (0..requests.len()).collect();
        let (wants, asked, symbols, got) = Default::default();
        let (lives, waiting, running, counts) = Default::default();
        Server {
            cache,
            kernels,
            faulty,
            requests,
            ready,
            lives,
            waiting,
            running,
            finished: 0,
            cooldown: 0,
            counts,
            wants,
            asked,
            symbols,
            got,
        }
    }

    fn identity(&self, l: usize) -> Identity<'static> {
        let salts = ["tenant-0", "tenant-1"];
        let salt = if self.faulty { "" } else { salts[self.requests[self.lives[l].request].salt as usize] };
        Identity { salt, ..Identity::default() }
    }

    fn refill(&mut self) {
        while self.waiting.len() < MAX_RUNNING {
            let i = match self.ready.pop_front() {
                Some(i) => i,
                None => return,
            };
            let r = &self.requests[i];
            let mut l = Live::new(i, r.prompt.len() + r.output, r.salt);
            l.forks = r.samples == 2;
            r.prompt.iter().for_each(|symbol| l.learn(*symbol));
            self.waiting.push_back(self.lives.len());
            self.lives.push(l);
        }
    }

    /// Adds an entry to the call that is being built; the symbols from `given` to `end` go with it.
    fn ask(&mut self, of: usize, tokens: usize, end: usize, flags: u32) {
        let l = &self.lives[of];
        let from = l.given.min(end);
        let told = &l.symbols[from..end];
        self.wants.push(Want {
            sequence: l.id,
            symbols_position: from as u64,
            symbols_offset: self.symbols.len() as u64,
            num_symbols: told.len() as u32,
            num_tokens: tokens as u32,
            flags,
            ..Want::default()
        });
        self.symbols.extend_from_slice(told);
        self.asked.push(of);
    }

    fn plan(&mut self) -> Result<()> {
        let mut left = BUDGET;
        for of in self.running.clone() {
            let l = &self.lives[of];
            let known = l.symbols.len();
            if left == 0 || (known <= l.reserved && l.reserved + 1 >= l.end) {
                continue; // its last result is in flight
            }
            // 1: its symbol comes with the commit of the step in flight
            let tokens = if known > l.reserved { (known - l.reserved).min(left) } else { 1 };
            let ends_prompt = l.reserved < l.prefill_end && l.reserved + tokens >= l.prefill_end;
            let end = (l.reserved + tokens).min(known);
            self.ask(of, tokens, end, if ends_prompt { Want::PROMPT_END } else { 0 });
            left -= tokens;
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            if !self.running.is_empty() {
                return Ok(());
            }
        }
        self.refill();
        for (i, of) in self.waiting.clone().into_iter().enumerate() {
            if left == 0 || self.running.len() + i >= MAX_RUNNING {
                break;
            }
            let identity = self.identity(of);
            if !self.lives[of].has_id {
                self.lives[of].id = self.cache.create_sequence(Some(&identity))?;
                self.lives[of].has_id = true;
            }
            let known = self.lives[of].symbols.len();
            let found = self.cache.reader().probe(&identity, &self.lives[of].symbols)?;
            let rest = known - found.hit_tokens as usize;
            let tokens = rest.min(left);
            self.ask(of, tokens, known, Want::MATCH | if tokens == rest { Want::PROMPT_END } else { 0 });
            left -= tokens;
        }
        Ok(())
    }

    /// Builds one call and takes its answers: running requests first, oldest first, then those that wait.
    fn reserve(&mut self, to: &mut Record<'c>) -> Result<()> {
        to.rows.clear();
        self.wants.clear();
        self.asked.clear();
        self.symbols.clear();
        self.plan()?;
        if self.wants.is_empty() {
            return Ok(());
        }
        self.got.clear();
        self.got.resize(self.wants.len(), Got::default());
        to.step = self.cache.reserve(&self.wants, &self.symbols, &mut self.got)?;
        let mut starved = false;
        for (of, got) in self.asked.iter().copied().zip(&self.got) {
            let waits = self.waiting.front() == Some(&of);
            match got.refused() {
                Some(Code::ResourceExhausted) if waits => break, // in order: whoever waits behind it waits as well
                Some(Code::ResourceExhausted) => {
                    starved = true;
                    continue;
                }
                Some(_) => return Err(got.error()),
                None => {}
            }
            let l = &mut self.lives[of];
            if waits {
                self.waiting.pop_front();
                self.running.push(of);
                l.prefill_end = l.symbols.len();
                self.counts.prompt += l.symbols.len();
                self.counts.reused += got.hit_tokens as usize;
            }
            l.reserved = got.position as usize + got.num_tokens as usize;
            l.given = self.cache.sequence_info(l.id)?.known as usize;
            to.rows.push(Row { of, epoch: l.epoch, position: got.position as usize, tokens: got.num_tokens as usize });
        }
        if starved {
            // the youngest makes room; its blocks come free when the steps in flight are done
            self.cooldown = COOLDOWN_STEPS;
            self.preempt()?;
        }
        match &to.step {
            Some(step) => step.fill_batch(&mut to.batch),
            None => Ok(()),
        }
    }

    fn preempt(&mut self) -> Result<()> {
        if let Some(of) = self.running.pop() {
            let l = &mut self.lives[of];
            self.cache.preempt_sequence(l.id)?;
            self.waiting.push_front(of);
            l.epoch += 1;
            l.given = 0;
            l.reserved = 0;
            self.counts.preemptions += 1;
        }
        Ok(())
    }

    /// Runs a reserved step's kernels and keeps their results.
    fn launch(&mut self, record: &Record<'c>) -> Result<()> {
        if let Some(step) = &record.step {
            self.kernels.prepare(step)?;
        }
        let (batch, lives) = (&record.batch, &mut self.lives);
        let mut hashes = vec![0; batch.tokens()];
        let starts = || record.rows.iter().zip(batch.query_indptr()).map(|(row, start)| (*row, *start as usize));
        for (row, start) in starts().filter(|(row, _)| lives[row.of].epoch == row.epoch) {
            hashes[start..start + row.tokens].copy_from_slice(&lives[row.of].hashes[row.position + 1..][..row.tokens]);
        }
        self.kernels.run(batch, &hashes, |layer, width, out| {
            for (row, start) in starts() {
                let l = &mut lives[row.of];
                for t in (0..row.tokens).filter(|_| l.epoch == row.epoch).collect::<Vec<_>>() {
                    l.out[layer][row.position + t] = out[(start + t) * width..][..width].to_vec();
                }
            }
        })
    }

    /// Says what stands: those that computed the last known symbol sample the next one.
    fn commit(&mut self, record: &mut Record<'c>) -> Result<()> {
        let (mut outcomes, mut told) = (Vec::new(), Vec::new());
        for row in &record.rows {
            let l = &mut self.lives[row.of];
            let (sequence, num_accepted) = (l.id, row.tokens as u32);
            let mut outcome = Outcome { sequence, symbols_offset: told.len() as u64, num_accepted, ..Outcome::default() };
            if l.epoch == row.epoch {
                self.counts.computed += row.tokens;
                if row.position + row.tokens == l.symbols.len() {
                    outcome.symbols_position = l.symbols.len() as u64;
                    let symbol = sampled(l.hashes[l.symbols.len()], l.sample);
                    l.learn(symbol);
                    told.push(symbol);
                    l.given = l.symbols.len();
                    outcome.num_symbols = 1;
                    self.counts.generated += 1;
                }
            }
            outcomes.push(outcome);
        }
        if let Some(mut step) = record.step.take() {
            step.commit(&outcomes, &told)?;
        }
        self.counts.steps += 1;
        for (row, outcome) in record.rows.iter().zip(&outcomes) {
            let l = &self.lives[row.of];
            if l.epoch != row.epoch || outcome.num_symbols == 0 {
                continue;
            }
            if l.forks {
                self.fork(row.of)?;
            }
            if self.lives[row.of].symbols.len() >= self.lives[row.of].end {
                self.finish(row.of)?;
            }
        }
        Ok(())
    }

    /// Begins the second sample with the committed tokens of the first: the prompt.
    fn fork(&mut self, parent: usize) -> Result<()> {
        let l = &mut self.lives[parent];
        l.forks = false;
        let request = &self.requests[l.request];
        let mut child = Live::new(l.request, l.end, request.salt);
        child.id = self.cache.fork_sequence(l.id)?;
        child.has_id = true;
        let n = self.cache.sequence_info(child.id)?.committed as usize;
        assert_eq!(n, request.prompt.len(), "the child of a fork has the prompt");
        l.symbols[..n].iter().for_each(|symbol| child.learn(*symbol));
        child.sample = 1;
        child.given = n;
        child.reserved = n;
        child.prefill_end = n;
        child.learn(sampled(child.hashes[n], child.sample));
        self.counts.generated += 1;
        self.counts.forks += 1;
        self.running.push(self.lives.len());
        self.lives.push(child);
        Ok(())
    }

    fn finish(&mut self, of: usize) -> Result<()> {
        self.cache.finish_sequence(self.lives[of].id)?;
        self.running.retain(|running| *running != of);
        self.lives[of].epoch += 1;
        self.finished += 1;
        Ok(())
    }

    /// Serves everything: while a step runs the next one is reserved; then the first is committed.
    pub fn run(&mut self, mut now: Record<'c>, mut after: Record<'c>) -> Result<()> {
        self.reserve(&mut now)?;
        let mut idle = 0;
        while now.step.is_some() || !(self.running.is_empty() && self.waiting.is_empty() && self.ready.is_empty()) {
            if now.step.is_some() {
                self.launch(&now)?;
            }
            self.reserve(&mut after)?;
            idle += 1;
            if now.step.is_some() {
                idle = 0;
                self.commit(&mut now)?;
            }
            assert!(idle <= 2 * COOLDOWN_STEPS, "no request can go on");
            std::mem::swap(&mut now, &mut after);
        }
        Ok(())
    }
}
