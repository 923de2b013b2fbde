//! Ops that modules publish by name: found, described and called.

use crate::error::{borrow, borrow_name, call, copy, list, Error, Result};
use crate::memory::Stream;
use crate::runtime::{made, Runtime};
use crate::view::{View, ViewMut};
use quire_sys as sys;
use std::ptr::NonNull;

/// In which form an op is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpForm {
    /// Packed where there is one.
    #[default]
    Any,
    /// A C function, called through libffi.
    Native,
    /// A function over an array of values.
    Packed,
}

/// Facts of an op.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpInfo {
    /// 1 and up.
    pub version: u32,
    /// Unique in its module.
    pub name: String,
    /// Such as `f64(f64,f64,f32)`.
    pub signature: String,
    /// What it does, units.
    pub doc: String,
    /// `QUIRE_OP_*`: the forms the module publishes.
    pub flags: u32,
    /// Parameters that callers pass.
    pub num_args: u32,
}

/// An argument or a result.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// No result.
    Void,
    /// A number.
    I32(i32),
    /// A number.
    I64(i64),
    /// A number.
    U32(u32),
    /// A number.
    U64(u64),
    /// A number.
    F32(f32),
    /// A number.
    F64(f64),
    /// Text, for the length of the call.
    Str(&'a str),
    /// A tensor that the op reads, for the length of the call.
    Tensor(&'a View<'a>),
    /// A tensor that the op writes, for the length of the call.
    TensorMut(&'a ViewMut<'a>),
    /// The stream of [`crate::Queue::invoke`].
    Stream,
    /// An address that the op returned; arguments cannot be addresses.
    Address(usize),
}

/// Most parameters of an op.
const MAX_ARGS: usize = 16;

fn info_of(raw: &sys::quire_extension_info) -> OpInfo {
    unsafe {
        OpInfo {
            version: raw.version,
            name: copy(raw.name),
            signature: copy(raw.signature),
            doc: copy(raw.doc),
            flags: raw.flags,
            num_args: raw.num_args,
        }
    }
}

fn value(type_: i32, bits: u64) -> sys::quire_value {
    sys::quire_value { type_, reserved0: 0, bits }
}

/// An op that was found; keeps its driver alive.
///
/// ```
/// # fn main() -> quire::Result<()> {
/// use quire::{Op, OpForm, Runtime, RuntimeOptions};
/// let runtime = Runtime::new(&RuntimeOptions { driver: "null".into(), ..Default::default() })?;
/// for op in Op::list(&runtime, "")? {
///     println!("{} {}: {}", op.name, op.signature, op.doc);
/// }
/// let refused = Op::find(&runtime, "", "no.such.op", 0, OpForm::Any).unwrap_err();
/// assert_eq!(refused.code, quire::Code::NotFound);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Op(NonNull<sys::quire_extension>);

// extension.h: find, retain, release and signature are callable from any thread; invoking is as the op says, so an Op is neither Sync nor Clone.
unsafe impl Send for Op {}

impl Op {
    /// The ops of the runtime's driver (`connector` empty), or of a connector by name. Loads the module.
    ///
    /// # Errors
    /// Those of opening a device.
    pub fn list(runtime: &Runtime, connector: &str) -> Result<Vec<OpInfo>> {
        let connector = borrow_name(connector, "connector")?;
        let size = std::mem::size_of::<sys::quire_extension_info>();
        let empty = sys::quire_extension_info { struct_size: size as u32, ..Default::default() };
        let found = list(empty, |items, capacity, count, err| unsafe {
            sys::quire_extension_list(runtime.raw(), connector, items, size as u64, capacity, count, err)
        })?;
        Ok(found.iter().map(info_of).collect())
    }

    /// Finds an op by name, at least of version `min_version` (0 = any).
    ///
    /// # Errors
    /// `NotFound`, `Unimplemented` (no such form), `Unavailable` (a native op in a library built without libffi), and those of opening a device.
    pub fn find(runtime: &Runtime, connector: &str, name: &str, min_version: u32, form: OpForm) -> Result<Op> {
        let (connector, name) = (borrow_name(connector, "connector")?, borrow_name(name, "name")?);
        let form = match form {
            OpForm::Any => 0,
            OpForm::Native => sys::QUIRE_EXTENSION_NATIVE,
            OpForm::Packed => sys::QUIRE_EXTENSION_PACKED,
        };
        let mut out = std::ptr::null_mut();
        call(|err| unsafe { sys::quire_extension_find(runtime.raw(), connector, name, min_version, form, &mut out, err) })?;
        made(out).map(Op)
    }

    /// Name, version and signature.
    ///
    /// # Errors
    /// None that a caller can cause.
    pub fn info(&self) -> Result<OpInfo> {
        let mut raw =
            sys::quire_extension_info { struct_size: std::mem::size_of::<sys::quire_extension_info>() as u32, ..Default::default() };
        call(|err| unsafe { sys::quire_extension_get_info(self.0.as_ptr(), &mut raw, err) })?;
        Ok(info_of(&raw))
    }

    /// Calls the op; allocates nothing. What it does with its arguments is the module's promise, as the module itself is trusted by being loaded.
    ///
    /// # Errors
    /// `InvalidArgument` (arity, a type), and the op's own.
    pub fn invoke(&self, args: &[Value<'_>]) -> Result<Value<'static>> {
        self.invoke_on(args, None)
    }

    pub(crate) fn invoke_on(&self, args: &[Value<'_>], stream: Option<&Stream>) -> Result<Value<'static>> {
        if args.len() > MAX_ARGS {
            return Err(Error::invalid(format!("args has {} values, the limit is {}", args.len(), MAX_ARGS)));
        }
        let mut texts = [sys::quire_str::default(); MAX_ARGS];
        let mut raw = [sys::quire_value::default(); MAX_ARGS];
        for (i, arg) in args.iter().enumerate() {
            raw[i] = match *arg {
                Value::I32(number) => value(sys::QUIRE_VALUE_I32, u64::from(number as u32)),
                Value::I64(number) => value(sys::QUIRE_VALUE_I64, number as u64),
                Value::U32(number) => value(sys::QUIRE_VALUE_U32, u64::from(number)),
                Value::U64(number) => value(sys::QUIRE_VALUE_U64, number),
                Value::F32(number) => value(sys::QUIRE_VALUE_F32, u64::from(number.to_bits())),
                Value::F64(number) => value(sys::QUIRE_VALUE_F64, number.to_bits()),
                Value::Str(text) => {
                    texts[i] = borrow(text);
                    value(sys::QUIRE_VALUE_STR, std::ptr::addr_of!(texts[i]) as u64)
                }
                Value::Tensor(view) => value(sys::QUIRE_VALUE_TENSOR, std::ptr::addr_of!(view.raw) as u64),
                Value::TensorMut(view) => value(sys::QUIRE_VALUE_TENSOR, std::ptr::addr_of!(view.raw) as u64),
                Value::Stream => match stream {
                    Some(stream) => value(sys::QUIRE_VALUE_STREAM, stream.raw() as u64),
                    None => return Err(Error::invalid(format!("args[{}] is a stream: call the op by Queue::invoke", i))),
                },
                Value::Void | Value::Address(_) => {
                    return Err(Error::invalid(format!("args[{}] is no value that Rust may pass: void or an address", i)))
                }
            };
        }
        let mut result = sys::quire_value::default();
        call(|err| unsafe { sys::quire_extension_call(self.0.as_ptr(), raw.as_ptr(), args.len() as u64, &mut result, err) })?;
        Ok(match result.type_ {
            sys::QUIRE_VALUE_I32 => Value::I32(result.bits as u32 as i32),
            sys::QUIRE_VALUE_I64 => Value::I64(result.bits as i64),
            sys::QUIRE_VALUE_U32 => Value::U32(result.bits as u32),
            sys::QUIRE_VALUE_U64 => Value::U64(result.bits),
            sys::QUIRE_VALUE_F32 => Value::F32(f32::from_bits(result.bits as u32)),
            sys::QUIRE_VALUE_F64 => Value::F64(f64::from_bits(result.bits)),
            sys::QUIRE_VALUE_POINTER => Value::Address(result.bits as usize),
            sys::QUIRE_VALUE_VOID => Value::Void,
            other => return Err(Error::new(crate::Code::Internal, format!("the op answered a value of type {}", other))),
        })
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        unsafe { sys::quire_extension_release(self.0.as_ptr()) }
    }
}
