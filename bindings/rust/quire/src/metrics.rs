//! What caches, tiers, memories and drivers count, as text for Prometheus.

use crate::cache::CacheReader;
use crate::error::{borrow, list_text, Result};
use crate::memory::Memory;
use crate::tier_reader::{Entered, TiersReader};
use quire_sys as sys;

/// Objects that count, and the labels of their samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricsSource<'a> {
    /// `Cache::reader`: it can be read from any thread.
    pub cache: Option<&'a CacheReader>,
    /// `Tiers::reader`, the same for the tiers of a cache.
    pub tiers: Option<&'a TiersReader>,
    /// One shard; its device is reported with it.
    pub memory: Option<&'a Memory>,
    /// As in the text: `engine="0",model_name="m"`.
    pub labels: &'a str,
}

/// The form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsFormat {
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`
    OpenMetrics,
    /// `text/plain; version=0.0.4; charset=utf-8`
    Prometheus,
}

/// The metrics of all sources as one text.
///
/// # Errors
/// `InvalidArgument` (labels: syntax, a name twice or one of quire's; two sources with the same labels), `FailedPrecondition` (tiers that are
/// gone).
pub fn write_metrics(sources: &[MetricsSource<'_>], format: MetricsFormat) -> Result<String> {
    let entered: Vec<Option<Entered<'_>>> = sources.iter().map(|s| s.tiers.map(TiersReader::enter).transpose()).collect::<Result<_>>()?;
    let raw: Vec<sys::quire_metrics_source> = sources
        .iter()
        .zip(&entered)
        .map(|(s, tiers)| sys::quire_metrics_source {
            cache: s.cache.map_or(std::ptr::null_mut(), CacheReader::raw),
            tiers: tiers.as_ref().map_or(std::ptr::null_mut(), Entered::as_ptr),
            memory: s.memory.map_or(std::ptr::null_mut(), Memory::raw),
            labels: borrow(s.labels),
            reserved0: std::ptr::null_mut(),
        })
        .collect();
    let form = match format {
        MetricsFormat::OpenMetrics => sys::QUIRE_METRICS_OPENMETRICS,
        MetricsFormat::Prometheus => sys::QUIRE_METRICS_PROMETHEUS,
    };
    list_text(|text, capacity, count, err| unsafe {
        sys::quire_metrics_write(raw.as_ptr(), raw.len() as u64, form, text, capacity, count, err)
    })
}
