//! A hybrid model: recurrent layers keep one state per sequence, so a prompt resumes only where a state was kept.
use quire::*;

const CONFIG: &str = r#"{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 256,
 "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
 "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
 "linear_value_head_dim": 16, "max_position_embeddings": 1024, "torch_dtype": "bfloat16"}"#;

fn words(miss: Miss) -> &'static str {
    match miss {
        Miss::None => "complete",
        Miss::UnknownPrefix => "unknown prefix",
        Miss::Evicted => "evicted",
        Miss::NoState => "no state kept there",
        Miss::WindowHole => "window hole",
        Miss::BelowUnit => "shorter than one unit",
        _ => "disabled",
    }
}

/// Serves a prompt, chunk by chunk: a chunk ends where a state is worth keeping.
fn serve(cache: &Cache, name: &str, salt: &str, prompt: &[Symbol]) -> Result<()> {
    let n = prompt.len() as u64;
    let sequence = cache.create_sequence(Some(&Identity { salt, ..Identity::default() }))?;
    let mut want = Want { sequence, flags: Want::MATCH | Want::PROMPT_END, ..Want::default() };
    let mut got = [Got::default()];
    while want.symbols_offset < n {
        want.num_symbols = (n - want.symbols_offset) as u32;
        want.num_tokens = want.num_symbols;
        let mut step = cache.reserve(&[want], prompt, &mut got)?.ok_or_else(|| got[0].error())?;
        let [got] = got;
        if want.flags & Want::MATCH != 0 {
            print!("{}: {} of {} tokens reused, ", name, got.hit_tokens, n);
            print!("attention alone {}: {}; chunks", got.full_hit_tokens, words(got.miss()));
        }
        want.flags = Want::PROMPT_END;
        want.symbols_position = got.end();
        want.symbols_offset = got.end();
        print!(" {}..{}", got.position, want.symbols_offset);
        step.commit(&[Outcome { sequence, num_accepted: got.num_tokens, ..Outcome::default() }], &[])?;
    }
    println!();
    cache.finish_sequence(sequence)
}

fn story() -> Result<()> {
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let model = Model::from_json(CONFIG)?;
    let config = Config::new(&model, &PlanOptions { num_pages: 101, ..PlanOptions::default() })?;
    let cache = Cache::new(Some(&runtime), &config, &CacheOptions::default())?;
    for number in 0..config.info()?.num_groups {
        let group = config.group(number)?;
        let kind = if group.is_state != 0 { "states" } else { "attention" };
        println!("group {}: {}, layers {}, blocks of {} tokens", number, kind, group.num_caches, group.block_tokens);
    }
    let mut prompt: Vec<Symbol> = (1000..1300).collect();
    serve(&cache, "first", "", &prompt)?;
    serve(&cache, "again", "", &prompt)?;
    prompt[250] = 7; // another question about the same document
    serve(&cache, "parts at 250", "", &prompt)?;
    prompt[250] = 8; // there a state is kept now
    serve(&cache, "parts there too", "", &prompt)?;
    serve(&cache, "other salt", "tenant 2", &prompt)?;
    cache.verify()
}

fn main() {
    if let Err(error) = story() {
        println!("{}: {}", error.code, error.message);
        std::process::exit(1);
    }
}
