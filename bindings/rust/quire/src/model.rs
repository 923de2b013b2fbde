//! What the layers of a model cache.

use crate::dtype::DType;
use crate::error::{borrow, call, copy, list_text, text, Result};
use crate::runtime::{counted, made};
use quire_sys as sys;
use std::ptr::NonNull;

/// Kind of one layer's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LayerKind {
    /// The layer caches nothing.
    #[default]
    None,
    /// Every token stays.
    Full,
    /// The last `window` tokens, the current one included; `sink_tokens` first tokens stay.
    SlidingWindow,
    /// Attention inside chunks of `window` tokens.
    Chunked,
    /// One latent row per token.
    Mla,
    /// A recurrent state.
    State,
    /// Keys of the encoder, constant per request.
    Cross,
    /// Attends but keeps nothing.
    EncoderOnly,
    /// Keys beside another cache that choose what attention reads.
    Indexer,
    /// A kind that this crate does not know.
    Other(i32),
}

const KINDS: [(i32, LayerKind); 9] = [
    (sys::QUIRE_LAYER_NONE, LayerKind::None),
    (sys::QUIRE_LAYER_FULL, LayerKind::Full),
    (sys::QUIRE_LAYER_SLIDING_WINDOW, LayerKind::SlidingWindow),
    (sys::QUIRE_LAYER_CHUNKED, LayerKind::Chunked),
    (sys::QUIRE_LAYER_MLA, LayerKind::Mla),
    (sys::QUIRE_LAYER_STATE, LayerKind::State),
    (sys::QUIRE_LAYER_CROSS, LayerKind::Cross),
    (sys::QUIRE_LAYER_ENCODER_ONLY, LayerKind::EncoderOnly),
    (sys::QUIRE_LAYER_INDEXER, LayerKind::Indexer),
];

impl LayerKind {
    fn of(number: i32) -> LayerKind {
        KINDS.iter().find(|(value, _)| *value == number).map_or(LayerKind::Other(number), |(_, kind)| *kind)
    }

    fn number(self) -> i32 {
        match self {
            LayerKind::Other(number) => number,
            _ => KINDS.iter().find(|(_, kind)| *kind == self).map_or(-1, |(value, _)| *value),
        }
    }
}

/// What a codec adds to heads, widths and dtype; index 0 is K (or the only side), 1 is V. All zero: plain strided elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CodecParams {
    /// Of a cell: the encoded elements.
    pub data_bytes: [u32; 2],
    /// Of a cell: its scales.
    pub scale_bytes: [u32; 2],
    /// Of a cell: elements kept in `tail_dtype`.
    pub tail_bytes: [u32; 2],
    /// Encoded elements.
    pub data_dtype: DType,
    /// Scales.
    pub scale_dtype: DType,
    /// Elements of the tail.
    pub tail_dtype: DType,
    /// Elements that share a scale.
    pub scale_elements: u32,
    /// Elements of a tile.
    pub tile: u32,
    /// Bytes a block is rounded up to.
    pub block_alignment: u32,
}

/// One tensor of a recurrent state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateTensor {
    /// Type of its elements.
    pub dtype: DType,
    /// Elements, of the whole model, row-major; 1 to 4 dimensions.
    pub shape: Vec<u64>,
    /// Dimension that tensor parallelism splits; `None` = every rank has the whole tensor.
    pub shard: Option<u8>,
}

/// One cache of one layer. A layer with several caches appears several times with the same `layer` and `sub` = 0, 1, ...
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Layer {
    /// Kind.
    pub kind: LayerKind,
    /// Index in the model.
    pub layer: u32,
    /// Index among the layer's caches.
    pub sub: u32,
    /// Empty = `layers.<layer>`.
    pub name: String,
    /// Of the whole model; states: key heads.
    pub num_kv_heads: u32,
    /// Of the whole model.
    pub num_q_heads: u32,
    /// Elements; MLA: latent and rope.
    pub head_dim_k: u32,
    /// Elements; 0 for MLA and indexer.
    pub head_dim_v: u32,
    /// Of the cached elements.
    pub dtype: DType,
    /// `QUIRE_CODEC_*`.
    pub codec: i32,
    /// The codec's numbers.
    pub codec_params: CodecParams,
    /// Tokens of windows and chunks.
    pub window: u64,
    /// First tokens that stay; with a window only.
    pub sink_tokens: u32,
    /// 0, or 1 + index of the earlier layer whose cache this one reads.
    pub shares_with: u32,
    /// Tokens per stored row; 0 = 1.
    pub compress_ratio: u32,
    /// Wanted block, tokens; 0 = the planner's.
    pub block_tokens: u32,
    /// `QUIRE_STATE_*`.
    pub state_kind: i32,
    /// Up to 4 tensors of a state.
    pub state: Vec<StateTensor>,
    /// Extents along the sharded dimension of `state[0]` that are split one by one.
    pub state_parts: [u32; 4],
    /// 0 = none; sizes nothing.
    pub softcap: f32,
    /// Cross attention: most encoder tokens of a request.
    pub encoder_tokens: u64,
    /// `QUIRE_LAYER_DRAFT`, `QUIRE_LAYER_SINK_LOGITS`.
    pub flags: u32,
    /// Tokens a draft layer writes ahead.
    pub look_ahead: u32,
    /// MLA: elements at the end of a row that carry rope; sizes nothing.
    pub rope_dim: u32,
}

/// Facts of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Layers without cache included.
    pub num_layers: u32,
    /// Caches.
    pub num_caches: u32,
    /// 0 = differs or unknown.
    pub num_q_heads: u32,
    /// Tokens; 0 = unknown.
    pub max_model_len: u64,
    /// As the config calls it.
    pub architecture: String,
}

/// What the layers of a model cache; immutable.
///
/// ```
/// use quire::{DType, Layer, LayerKind, Model};
/// # fn main() -> quire::Result<()> {
/// let layer = Layer { kind: LayerKind::Full, num_kv_heads: 2, num_q_heads: 4, head_dim_k: 64, head_dim_v: 64, dtype: DType::F32, ..Layer::default() };
/// let model = Model::new(&[layer], 1024)?;
/// assert_eq!(model.info()?.num_caches, 1);
/// let refused = Model::from_json("{").unwrap_err();
/// assert_eq!(refused.code, quire::Code::InvalidArgument);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Model(NonNull<sys::quire_model>);

// model.h: every function of a model is callable from any thread.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}
counted!(Model, quire_model_retain, quire_model_release);

fn codec_to_raw(from: &CodecParams) -> sys::quire_codec_params {
    sys::quire_codec_params {
        data_bytes: from.data_bytes,
        scale_bytes: from.scale_bytes,
        tail_bytes: from.tail_bytes,
        data_dtype: from.data_dtype.raw(),
        scale_dtype: from.scale_dtype.raw(),
        tail_dtype: from.tail_dtype.raw(),
        scale_elements: from.scale_elements,
        tile: from.tile,
        block_alignment: from.block_alignment,
    }
}

fn codec_from_raw(from: &sys::quire_codec_params) -> CodecParams {
    CodecParams {
        data_bytes: from.data_bytes,
        scale_bytes: from.scale_bytes,
        tail_bytes: from.tail_bytes,
        data_dtype: DType::of(from.data_dtype),
        scale_dtype: DType::of(from.scale_dtype),
        tail_dtype: DType::of(from.tail_dtype),
        scale_elements: from.scale_elements,
        tile: from.tile,
        block_alignment: from.block_alignment,
    }
}

impl Layer {
    pub(crate) fn raw(&self) -> Result<sys::quire_layer> {
        let mut to = sys::quire_layer {
            struct_size: std::mem::size_of::<sys::quire_layer>() as u32,
            kind: self.kind.number(),
            layer: self.layer,
            sub: self.sub,
            name: borrow(&self.name),
            num_kv_heads: self.num_kv_heads,
            num_q_heads: self.num_q_heads,
            head_dim_k: self.head_dim_k,
            head_dim_v: self.head_dim_v,
            dtype: self.dtype.raw(),
            codec: self.codec,
            window: self.window,
            sink_tokens: self.sink_tokens,
            shares_with: self.shares_with,
            compress_ratio: self.compress_ratio,
            block_tokens: self.block_tokens,
            state_kind: self.state_kind,
            softcap: self.softcap,
            encoder_tokens: self.encoder_tokens,
            flags: self.flags,
            codec_params: codec_to_raw(&self.codec_params),
            state_parts: self.state_parts,
            look_ahead: self.look_ahead,
            rope_dim: self.rope_dim,
            ..Default::default()
        };
        if self.state.len() > to.state.len() || self.state.iter().any(|tensor| tensor.shape.len() > 4) {
            return Err(crate::Error::invalid(format!(
                "layer {}: {} state tensors of at most {} dimensions, the limits are 4 and 4",
                self.layer,
                self.state.len(),
                self.state.iter().map(|tensor| tensor.shape.len()).max().unwrap_or(0)
            )));
        }
        to.num_state_tensors = self.state.len() as u32;
        for (i, tensor) in self.state.iter().enumerate() {
            to.state[i] = sys::quire_state_tensor { dtype: tensor.dtype.raw(), ndim: tensor.shape.len() as u32, ..Default::default() };
            to.state[i].shape[..tensor.shape.len()].copy_from_slice(&tensor.shape);
            to.state_shard[i] = tensor.shard.map_or(0, |dimension| dimension.saturating_add(1));
        }
        Ok(to)
    }
}

impl Model {
    /// A model from its caches, ordered by `(layer, sub)`.
    ///
    /// # Errors
    /// `InvalidArgument` naming layer, field, value and limit.
    pub fn new(layers: &[Layer], max_model_len: u64) -> Result<Model> {
        let raw = layers.iter().map(Layer::raw).collect::<Result<Vec<_>>>()?;
        let stride = std::mem::size_of::<sys::quire_layer>() as u64;
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_model_create(raw.as_ptr(), stride, raw.len() as u64, max_model_len, &mut out, err) })?;
        made(out).map(Model)
    }

    /// Reads the text of a Hugging Face `config.json`; it may come from anywhere.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field; `Unimplemented` for an unknown architecture.
    pub fn from_json(json: &str) -> Result<Model> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_model_from_json(borrow(json), &mut out, err) })?;
        made(out).map(Model)
    }

    /// Reads a layer file; it may come from anywhere.
    ///
    /// # Errors
    /// `InvalidArgument` naming the field; `Unimplemented` for an unknown kind, record or field value.
    pub fn from_layers(json: &str) -> Result<Model> {
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_model_from_layers(borrow(json), &mut out, err) })?;
        made(out).map(Model)
    }

    /// Facts of the model.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn info(&self) -> Result<ModelInfo> {
        let mut raw = sys::quire_model_info { struct_size: std::mem::size_of::<sys::quire_model_info>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_model_get_info(self.raw(), &mut raw, err) })?;
        Ok(ModelInfo {
            num_layers: raw.num_layers,
            num_caches: raw.num_caches,
            num_q_heads: raw.num_q_heads,
            max_model_len: raw.max_model_len,
            architecture: text(&raw.architecture),
        })
    }

    /// The index-th cache, below `num_caches`.
    ///
    /// # Errors
    /// `OutOfRange`.
    pub fn layer(&self, index: u32) -> Result<Layer> {
        let mut raw = sys::quire_layer { struct_size: std::mem::size_of::<sys::quire_layer>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_model_get_layer(self.raw(), index, &mut raw, err) })?;
        let states = (raw.num_state_tensors as usize).min(raw.state.len());
        Ok(Layer {
            kind: LayerKind::of(raw.kind),
            layer: raw.layer,
            sub: raw.sub,
            name: unsafe { copy(raw.name) },
            num_kv_heads: raw.num_kv_heads,
            num_q_heads: raw.num_q_heads,
            head_dim_k: raw.head_dim_k,
            head_dim_v: raw.head_dim_v,
            dtype: DType::of(raw.dtype),
            codec: raw.codec,
            codec_params: codec_from_raw(&raw.codec_params),
            window: raw.window,
            sink_tokens: raw.sink_tokens,
            shares_with: raw.shares_with,
            compress_ratio: raw.compress_ratio,
            block_tokens: raw.block_tokens,
            state_kind: raw.state_kind,
            state: (0..states)
                .map(|i| StateTensor {
                    dtype: DType::of(raw.state[i].dtype),
                    shape: raw.state[i].shape[..(raw.state[i].ndim as usize).min(4)].to_vec(),
                    shard: raw.state_shard[i].checked_sub(1),
                })
                .collect(),
            state_parts: raw.state_parts,
            softcap: raw.softcap,
            encoder_tokens: raw.encoder_tokens,
            flags: raw.flags,
            look_ahead: raw.look_ahead,
            rope_dim: raw.rope_dim,
        })
    }

    /// The model as a table of text, one row per kind of cache.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn describe(&self) -> Result<String> {
        list_text(|text, capacity, count, err| unsafe { sys::quire_model_describe(self.raw(), text, capacity, count, err) })
    }

    pub(crate) fn raw(&self) -> *mut sys::quire_model {
        self.0.as_ptr()
    }
}
