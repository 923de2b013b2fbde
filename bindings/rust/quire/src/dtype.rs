//! Element types.

use quire_sys as sys;

/// Type of an element, in DLPack's numbers. All zero means absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct DType {
    /// Kind of number.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// 0 is read as 1.
    pub lanes: u16,
}

macro_rules! dtypes {
    ($($name:ident = $code:ident, $bits:literal;)*) => {
        #[allow(missing_docs)]
        impl DType {
            $(pub const $name: DType = DType { code: sys::$code as u8, bits: $bits, lanes: 1 };)*
        }
    };
}
dtypes! {
    I8 = QUIRE_DTYPE_INT, 8;
    I32 = QUIRE_DTYPE_INT, 32;
    I64 = QUIRE_DTYPE_INT, 64;
    U8 = QUIRE_DTYPE_UINT, 8;
    U32 = QUIRE_DTYPE_UINT, 32;
    U64 = QUIRE_DTYPE_UINT, 64;
    F16 = QUIRE_DTYPE_FLOAT, 16;
    F32 = QUIRE_DTYPE_FLOAT, 32;
    F64 = QUIRE_DTYPE_FLOAT, 64;
    BF16 = QUIRE_DTYPE_BFLOAT, 16;
    F8_E4M3FN = QUIRE_DTYPE_FLOAT8_E4M3FN, 8;
    F8_E5M2 = QUIRE_DTYPE_FLOAT8_E5M2, 8;
    F8_E8M0FNU = QUIRE_DTYPE_FLOAT8_E8M0FNU, 8;
    F4_E2M1FN = QUIRE_DTYPE_FLOAT4_E2M1FN, 4;
}

impl DType {
    /// Bytes of an element; 0 for types below 8 bits.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::from(self.bits) * usize::from(self.lanes.max(1)) / 8
    }

    pub(crate) fn raw(self) -> sys::quire_dtype {
        sys::quire_dtype { code: self.code, bits: self.bits, lanes: self.lanes }
    }

    pub(crate) fn of(raw: sys::quire_dtype) -> DType {
        DType { code: raw.code, bits: raw.bits, lanes: raw.lanes }
    }
}

/// A bfloat16 by its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Bf16(pub u16);

impl Bf16 {
    /// The nearest bfloat16, ties to even.
    #[must_use]
    pub fn from_f32(value: f32) -> Bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16(((u64::from(bits) + 0x7fff + u64::from((bits >> 16) & 1)) >> 16) as u16)
    }

    /// The same number.
    #[must_use]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// An IEEE half by its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct F16(pub u16);

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose every pattern of bits is a value of a [`DType`].
pub trait Element: Copy + Default + Send + Sync + sealed::Sealed + 'static {
    /// The type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty = $dtype:ident;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }
        )*
    };
}
elements! {
    i8 = I8; i32 = I32; i64 = I64; u8 = U8; u32 = U32; u64 = U64; f32 = F32; f64 = F64; Bf16 = BF16; F16 = F16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_the_nearest_even() {
        assert_eq!(Bf16::from_f32(1.0).0, 0x3f80);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3f80_8000)).0, 0x3f80);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3f81_8000)).0, 0x3f82);
        assert_eq!(Bf16::from_f32(f32::from_bits(0x3f80_8001)).0, 0x3f81);
        assert!(Bf16::from_f32(f32::NAN).to_f32().is_nan());
        assert_eq!(Bf16::from_f32(f32::MAX).to_f32(), f32::INFINITY);
    }
}
