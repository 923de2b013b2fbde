//! A sequence that ends where its owner drops it.

use crate::cache::{Cache, SequenceInfo};
use crate::entries::{Identity, SequenceId};
use crate::error::Result;
use std::borrow::Borrow;

/// A sequence of a cache that is finished when it is dropped; what it published stays findable. `C` is how it holds its cache: `&Cache`,
/// `Rc<Cache>` or anything else that lends one. A [`SequenceId`] of [`Cache::create_sequence`] is the same without an owner.
///
/// Dropping it is legal while a step of it is in flight, as [`Cache::finish_sequence`] is: the results are dropped. A step that is dropped
/// without commit is aborted, so an error on the way leaves neither. While a load or a fetch brings tokens to it, it cannot be finished: end that
/// first, or it stays open.
///
/// ```
/// use quire::{Cache, CacheOptions, Config, DType, Got, Layer, LayerKind, Model, PlanOptions, Sequence, Want};
/// # fn main() -> quire::Result<()> {
/// # let layer = Layer { kind: LayerKind::Full, num_kv_heads: 1, num_q_heads: 1, head_dim_k: 64, head_dim_v: 64, dtype: DType::F32, ..Layer::default() };
/// # let config = Config::new(&Model::new(&[layer], 256)?, &PlanOptions { num_pages: 17, ..PlanOptions::default() })?;
/// let cache = Cache::new(None, &config, &CacheOptions::default())?;
/// {
///     let sequence = Sequence::new(&cache, None)?;
///     let want = Want { sequence: sequence.id(), num_symbols: 3, num_tokens: 3, ..Want::default() };
///     let _step = cache.reserve(&[want], &[1, 2, 3], &mut [Got::default()])?;
///     assert_eq!(cache.reader().stats()?.num_sequences, 1);
/// } // the step is aborted, then the sequence is finished
/// assert_eq!(cache.reader().stats()?.num_sequences, 0);
/// # Ok(())
/// # }
/// ```
///
/// It borrows its cache:
///
/// ```compile_fail,E0505
/// # fn f(cache: quire::Cache) -> quire::Result<()> {
/// let sequence = quire::Sequence::new(&cache, None)?;
/// drop(cache);
/// drop(sequence);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a sequence that is dropped is finished"]
pub struct Sequence<C: Borrow<Cache>> {
    cache: C,
    id: SequenceId,
    is_open: bool,
}

impl<C: Borrow<Cache>> Sequence<C> {
    /// Opens an empty sequence, as [`Cache::create_sequence`].
    ///
    /// # Errors
    /// `InvalidArgument`, `ResourceExhausted` (`max_sequences`, `max_roots`).
    pub fn new(cache: C, identity: Option<&Identity<'_>>) -> Result<Sequence<C>> {
        let id = cache.borrow().create_sequence(identity)?;
        Ok(Sequence { cache, id, is_open: true })
    }

    /// Its number, for [`crate::Want`] and [`crate::Outcome`].
    #[must_use]
    pub fn id(&self) -> SequenceId {
        self.id
    }

    /// Its cache.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        self.cache.borrow()
    }

    /// Its state.
    ///
    /// # Errors
    /// `NotFound`: [`Cache::finish_sequence`] ended it.
    pub fn info(&self) -> Result<SequenceInfo> {
        self.cache().sequence_info(self.id)
    }

    /// Another one with the same committed tokens, as [`Cache::fork_sequence`].
    ///
    /// # Errors
    /// `NotFound`, `ResourceExhausted`, `FailedPrecondition`.
    pub fn fork(&self) -> Result<Sequence<C>>
    where
        C: Clone,
    {
        let id = self.cache().fork_sequence(self.id)?;
        Ok(Sequence { cache: self.cache.clone(), id, is_open: true })
    }

    /// Gives its blocks back and empties it, as [`Cache::preempt_sequence`].
    ///
    /// # Errors
    /// `NotFound`.
    pub fn preempt(&self) -> Result<()> {
        self.cache().preempt_sequence(self.id)
    }

    /// Shortens it to `tokens` committed tokens, as [`Cache::truncate_sequence`].
    ///
    /// # Errors
    /// `NotFound`, `OutOfRange`, `FailedPrecondition`.
    pub fn truncate(&self, tokens: u64) -> Result<()> {
        self.cache().truncate_sequence(self.id, tokens)
    }

    /// What dropping it does, with the answer. After an error it is left open: [`Cache::finish_sequence`] may be called again.
    ///
    /// # Errors
    /// `NotFound`, `FailedPrecondition` (a load of it is in progress).
    pub fn finish(mut self) -> Result<()> {
        self.is_open = false;
        self.cache().finish_sequence(self.id)
    }

    /// Leaves it open, without an owner.
    #[must_use = "the number is the only way back to the sequence"]
    pub fn detach(mut self) -> SequenceId {
        self.is_open = false;
        self.id
    }
}

impl<C: Borrow<Cache>> Drop for Sequence<C> {
    fn drop(&mut self) {
        if self.is_open {
            let _ = self.cache().finish_sequence(self.id);
        }
    }
}
