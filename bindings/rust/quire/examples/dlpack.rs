//! DLPack both ways: the engine's buffer goes in, a layer's cache comes out as a view of the same bytes. Nothing is copied.
use quire::*;

/// A buffer of the engine's that says when it is back.
struct Lent<B>(B, &'static str);

impl<T, B: AsMut<[T]>> AsMut<[T]> for Lent<B> {
    fn as_mut(&mut self) -> &mut [T] {
        self.0.as_mut()
    }
}

impl<B> Drop for Lent<B> {
    fn drop(&mut self) {
        println!("{} is the engine's again", self.1);
    }
}

fn join<T: ToString>(numbers: &[T], between: &str) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(between)
}

/// The view that outlives memory and device.
fn story(device: Device, config: &Config, region: RegionInfo) -> Result<DeviceTensor> {
    // In: one dense tensor per region. From here on it is the memory's.
    let buffer = Lent(AlignedBytes::new(region.bytes, region.alignment)?, "the buffer");
    let buffer = ManagedTensor::lend::<u8, _>(buffer, &[region.bytes], None, false)?;
    let memory = Memory::bind(&device, config, 0, vec![buffer])?;
    let view = memory.export(&Export::layer(0, 0, 0))?;
    let strides = view.strides().unwrap_or(&[]).to_vec();
    println!("keys: [{}] with strides {}", join(view.shape(), ", "), join(&strides, " "));

    // Out: what is written through the view lies in the engine's buffer.
    let offset = view.address() - memory.region(0)?.0;
    let at = offset + 4 * (2 * strides[0] + 5 * strides[2] + strides[3] + 7 * strides[4]) as usize;
    let stream = Stream::new(&device)?;
    let mut keys = DeviceTensor::from_dlpack(view, &device)?;
    let mut rows: Vec<f32> = stream.read(&keys)?; // dense: [5, 1, 16, 2, 8]
    rows[((2 * 16 + 5) * 2 + 1) * 8 + 7] = 1.5;
    stream.write(&rows, &mut keys)?;
    let of = ExportOf::Page { page: 2, region: 0 };
    let page: Vec<u8> = stream.read(&memory.export(&Export { of, ..Export::layer(0, 0, 0) })?)?;
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[at - 2 * page.len()..][..4]);
    println!("key of page 2, token 5, head 1, item 7: byte {} of the buffer, {:.1}", at, f32::from_ne_bytes(bytes));

    // In for an op: rows of 16 elements, 20 apart, seen where they lie. Read-only ones only for callers that only read.
    let query = ManagedTensor::lend::<f32, _>(Lent(vec![0.0; 60], "the query"), &[3, 2, 8], Some(&[20, 8, 1]), true)?;
    let query = match device.import(query, false) {
        Ok(_) => panic!("a read-only tensor was taken for writing"),
        Err(refused) => {
            println!("{}: {}", refused.error.code, refused.error.message);
            refused.given // still the engine's
        }
    };
    let query = device.import(query, true)?;
    println!("query: strides {} bytes", join(query.strides(), " "));
    Ok(keys)
}

fn run() -> Result<()> {
    let layer = Layer {
        kind: LayerKind::Full,
        num_kv_heads: 2,
        num_q_heads: 2,
        head_dim_k: 8,
        head_dim_v: 8,
        dtype: DType::F32,
        ..Layer::default()
    };
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let config = Config::new(&Model::new(&[layer], 64)?, &PlanOptions { num_pages: 5, ..PlanOptions::default() })?;
    let region = config.regions(0)?[0];
    println!("region: {} bytes, aligned to {}", region.bytes, region.alignment);
    let _keys = story(Device::open(&runtime, 0)?, &config, region)?;
    println!("the memory is released, the view is not");
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        println!("{}: {}", error.code, error.message);
        std::process::exit(1);
    }
}
