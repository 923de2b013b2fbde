//! One program, any driver: QUIRE_DRIVER=cpu, null, ... names it; nothing here is compiled for one.
use quire::*;

/// Bytes of the device: any driver has these.
fn bytes_story(device: &Device, stream: &Stream) -> Result<()> {
    let mut tensor = device.create_tensor(DType::U8, &[3, 5])?;
    stream.scope(|queue| queue.fill(&mut tensor, 7))?;
    let all: Vec<u8> = stream.read(&tensor)?;
    println!("tensor [3, 5] filled with 7 and copied: sum {}", all.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    Ok(())
}

/// A kernel: two partial results of attention become one. The null driver has none.
fn kernel_story(stream: &Stream) -> Result<()> {
    let part = [[1.0_f32, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0]];
    let lse = [[0.5_f32], [0.5]];
    let mut out = [0.0_f32; 4];
    let parts = [View::new(&part[0], &[1, 1, 4])?, View::new(&part[1], &[1, 1, 4])?];
    let weights = [View::new(&lse[0], &[1, 1])?, View::new(&lse[1], &[1, 1])?];
    stream.scope(|queue| queue.attention_merge(&parts, &weights, ViewMut::new(&mut out, &[1, 1, 4])?, None))?;
    println!("merged with equal weights: {:.1} {:.1} {:.1} {:.1}", out[0], out[1], out[2], out[3]);
    Ok(())
}

fn story() -> Result<()> {
    let runtime = Runtime::new(&RuntimeOptions::default())?; // reads QUIRE_DRIVER; RuntimeOptions::driver would win over it
    let device = Device::open(&runtime, 0)?;
    println!("driver {}", device.info()?.driver);
    let stream = Stream::new(&device)?;
    bytes_story(&device, &stream)?;
    kernel_story(&stream)
}

fn main() {
    if let Err(error) = story() {
        println!("{}: {}", error.code, error.message);
        std::process::exit(1);
    }
}
