//! The loop of an engine without weights: continuous batching under a budget of tokens, chunked prefill, prefix reuse, fork, preemption of the
//! youngest, two steps in flight, over attention, recurrent states and a window. Every row is verified. `engine fault` drops the salts: the
//! verification must notice. samples/engine has the same in C, over real models and traces.
mod kernels;
mod serve;
mod values;
mod verify;

use kernels::Kernels;
use quire::*;
use serve::{Record, Server, BUDGET};
use values::{layers, workload, MAX_LEN};

/// Too few for all that runs: somebody gives way.
const PAGES: u64 = 40;

fn story(faulty: bool) -> Result<bool> {
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let config = Config::new(&Model::new(&layers(), MAX_LEN as u64)?, &PlanOptions { num_pages: PAGES, ..PlanOptions::default() })?;
    let limits = CacheOptions { max_sequences: 32, max_tokens_per_step: 2 * BUDGET as u32, ..CacheOptions::default() };
    let cache = Cache::new(Some(&runtime), &config, &limits)?;
    let device = Device::open(&runtime, 0)?;
    let (memory, stream) = (Memory::new(&device, &config, 0)?, Stream::new(&device)?);
    let mut server = Server::new(&cache, Kernels::new(&memory, &stream), faulty);
    server.run(Record::new(Batch::new(&config, 0)?), Record::new(Batch::new(&config, 0)?))?;
    cache.verify()?;

    let c = &server.counts;
    println!(
        "{} requests, {} samples: {} steps, {} preemptions, {} forks",
        workload().len(),
        server.finished,
        c.steps,
        c.preemptions,
        c.forks
    );
    println!("{} tokens admitted, {} of them reused; {} computed, {} generated", c.prompt, c.reused, c.computed, c.generated);
    let verdicts = server.lives.iter().map(verify::verify);
    let (rows, mismatches) = verdicts.fold((0, 0), |sum, (rows, bad)| (sum.0 + rows, sum.1 + bad));
    if mismatches > 0 {
        println!("rows that differ were found");
    } else {
        println!("verified {} rows of {} layers, 0 mismatches", rows, layers().len());
    }
    Ok(mismatches == 0)
}

fn main() {
    let faulty = std::env::args().nth(1).as_deref() == Some("fault");
    match story(faulty) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            println!("{}: {}", error.code, error.message);
            std::process::exit(1);
        }
    }
}
