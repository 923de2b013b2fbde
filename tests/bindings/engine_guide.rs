// Runs the Rust code of docs/in-your-engine.md, which rust.sh puts in front of this: prefill, a prefix found again, a pool too small for two.

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "torch_dtype": "bfloat16"}"#;

/// One prompt in one step; the sequence, and what was answered.
fn prefill(e: &Engine, prompt: &[Symbol], batch: &mut Batch, rows: &mut Vec<Outcome>) -> Result<(SequenceId, Got)> {
    let n = prompt.len() as u32;
    let sequence = e.cache.create_sequence(None)?;
    let want = Want { sequence, num_symbols: n, num_tokens: n, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
    let mut got = [Got::default()];
    if let Some(step) = begin(e, &[want], prompt, &mut got, batch)? {
        assert_eq!((batch.query_indptr()[1] as u32, batch.kv_len()[0] as u32), (got[0].num_tokens, n));
        assert_eq!(u64::from(batch.positions()[0] as u32), got[0].position);
        end(step, &got, &[true], &[7], rows)?;
    }
    Ok((sequence, got[0]))
}

const HYBRID: &str = r#"{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 256,
 "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
 "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
 "linear_value_head_dim": 16, "max_position_embeddings": 1024, "torch_dtype": "bfloat16"}"#;

/// A model whose first groups have states.
fn hybrid() -> Result<()> {
    let e = Engine::open(HYBRID, 4 << 20)?;
    assert_ne!(e.cache.config().group(0)?.is_state, 0);
    let prompt: Vec<Symbol> = (0..300).collect();
    let sequence = e.cache.create_sequence(None)?;
    let want = Want { sequence, num_symbols: 300, num_tokens: 300, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
    let mut got = [Got::default()];
    let mut small = Batch::fixed(e.cache.config(), 0, 64, 1)?;
    assert_eq!(begin(&e, &[want], &prompt, &mut got, &mut small).err().map(|error| error.code), Some(Code::OutOfRange));
    let mut batch = Batch::new(e.cache.config(), 0)?;
    let step = begin(&e, &[want], &prompt, &mut got, &mut batch)?.expect("the step before was taken back");
    end(step, &got, &[false], &[], &mut Vec::new())?;
    e.cache.finish_sequence(sequence)
}

/// Whole requests on a model whose first groups have states: what is reused, and that no step stays in flight after an error.
fn requests() -> Result<()> {
    let e = Engine::open(HYBRID, 4 << 20)?;
    let mut batch = Batch::new(e.cache.config(), 0)?;
    let prompt: Vec<Symbol> = (1000..1300).collect();
    let counts = std::cell::Cell::new((0, 0)); // runs, and which of them fails
    let mut model = |_: &Engine, batch: &Batch, step: &Step<'_>| {
        let (runs, fail_at) = counts.get();
        counts.set((runs + 1, fail_at));
        assert!(step.info()?.num_rows == 1 && batch.tokens() > 0 && batch.kv_len()[0] as usize >= batch.tokens());
        if runs + 1 == fail_at {
            return Err(Device::open(&Runtime::new(&RuntimeOptions { driver: "none".into(), ..Default::default() })?, 0).unwrap_err());
        }
        Ok(500 + runs + 1)
    };
    let (out, reused) = serve(&e, &mut batch, &mut model, "tenant", &prompt, 4)?;
    let runs = counts.get().0;
    assert!(runs > 4 && reused == 0 && out == [500 + runs - 3, 500 + runs - 2, 500 + runs - 1, 500 + runs], "more than one chunk");
    let (_, reused) = serve(&e, &mut batch, &mut model, "tenant", &prompt, 4)?;
    assert!(reused > 200, "found again");
    assert_eq!(serve(&e, &mut batch, &mut model, "another", &prompt, 1)?.1, 0, "not by others");
    counts.set((0, 2));
    assert_eq!(serve(&e, &mut batch, &mut model, "tenant", &prompt, 4).unwrap_err().code, Code::Unavailable);
    assert_eq!((counts.get().0, e.cache.reader().stats()?.num_sequences), (2, 0));
    let mut small = Batch::fixed(e.cache.config(), 0, 64, 1)?;
    assert_eq!(serve(&e, &mut small, &mut model, "fresh", &prompt, 4).unwrap_err().code, Code::OutOfRange);
    counts.set((0, 0));
    assert_eq!(serve(&e, &mut batch, &mut model, "tenant", &prompt, 4)?.0.len(), 4, "no step is left in flight");
    let tight = Engine::open(CONFIG, 40 * 4096)?;
    let mut batch = Batch::new(tight.cache.config(), 0)?;
    assert_eq!(prefill(&tight, &[5; 400], &mut batch, &mut Vec::new())?.1.refused(), None);
    assert_eq!(serve(&tight, &mut batch, &mut model, "", &[6; 400], 1).unwrap_err().code, Code::ResourceExhausted);
    Ok(())
}

fn main() -> Result<()> {
    hybrid()?;
    requests()?;
    // 512 bytes per layer, side and block of 16 tokens of 2 heads of 16: 4 KiB a page; 40 pages serve one prompt of 400, not two.
    let e = Engine::open(CONFIG, 40 * 4096)?;
    let mut batch = Batch::new(e.cache.config(), 0)?;
    let mut rows = Vec::with_capacity(64);
    let mut prompt: Vec<Symbol> = (0..400).collect();
    watch_units(&e, 16)?;
    let (first, got) = prefill(&e, &prompt[..100], &mut batch, &mut rows)?;
    let mut ends = Vec::new();
    store_units(&e, |unit, group, ids| {
        assert!(group == 0 && ids.len() == 1 && ids[0] != 0);
        ends.push(unit.end_token);
        Ok(())
    })?;
    assert_eq!(ends, [16, 32, 48, 64, 80, 96]);
    assert_eq!(e.cache.reader().stats()?.holds, 0);
    assert_eq!((got.hit_tokens, got.num_tokens), (0, 100));
    e.cache.finish_sequence(first)?;
    let (second, got) = prefill(&e, &prompt, &mut batch, &mut rows)?;
    assert_eq!((got.refused(), got.hit_tokens), (None, 96));
    prompt[0] = 9999;
    let (third, got) = prefill(&e, &prompt, &mut batch, &mut rows)?;
    assert!(got.refused() == Some(Code::ResourceExhausted) && got.missing_pages > 0);
    let mut running = vec![second];
    assert_eq!(give_way(&e, &got, &mut running)?, Some(second));
    assert_eq!(give_way(&e, &got, &mut running)?, None);
    e.cache.finish_sequence(third)?;
    assert_eq!(prefill(&e, &prompt, &mut batch, &mut rows)?.1.refused(), None);
    let stats = e.cache.reader().stats()?;
    assert_eq!((stats.preemptions, stats.steps), (1, 3));
    assert_eq!(Engine::open(&CONFIG[..20], 1 << 20).err().map(|error| error.code), Some(Code::InvalidArgument));
    println!("docs/in-your-engine.md: the Rust code runs");
    Ok(())
}
