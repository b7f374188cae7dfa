//! Decoding with a memory budget.
//!
//! A forged file can announce a sequence of any length, and one byte of a payload can stand for
//! many bytes of memory (an absent `Option<usize>` is 1 byte in the file and 16 in memory).
//! [`decode`] therefore lies as a layer around bincode's deserializer and
//!
//! - passes no announced length on, so that nothing is reserved before its content has been seen,
//! - borrows strings and byte strings from the input instead of letting the decoder reserve an
//!   announced length,
//! - charges each element of a sequence or map to a budget *before* decoding it, at the price of
//!   the memory a growing container may hold for it. Elements without size are charged too, which
//!   bounds the running time.

use std::{cell::Cell, fmt, marker::PhantomData};

use bincode::config::Config;
use serde::{
    Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
        Visitor,
    },
};

/// A vector that doubles holds at most the old and the new block: three times its elements. Tables
/// of hash maps and nodes of trees stay within the same factor and the extra word.
const GROWTH: u64 = 3;
const WORD: u64 = 8;
/// First block of a vector: at most this many elements.
const FIRST_BLOCK: u64 = 4;

/// Decodes all of `payload`, allocating at most about `budget` bytes for sequences and maps, plus
/// the bytes of strings.
pub(super) fn decode<T: DeserializeOwned>(
    payload: &[u8],
    config: impl Config,
    budget: u64,
) -> Result<T, String> {
    let meter = Meter {
        left: Cell::new(budget),
    };
    let seed = Metered {
        inner: PhantomData::<T>,
        meter: &meter,
    };
    let (value, used) =
        bincode::serde::seed_decode_from_slice(seed, payload, config).map_err(|e| e.to_string())?;
    match payload.len() - used {
        0 => Ok(value),
        left => Err(format!("{left} bytes are left over")),
    }
}

struct Meter {
    left: Cell<u64>,
}

impl Meter {
    /// Pays for element number `index` of a growing container.
    fn charge<E: Error>(&self, index: u64, size: usize) -> Result<(), E> {
        let size = size as u64;
        let first_block = if index == 0 { FIRST_BLOCK * size } else { 0 };
        let price = GROWTH * size + WORD + first_block;
        match self.left.get().checked_sub(price) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(E::custom(
                "it would need more memory than 16 times its size + 1 MiB (forged lengths, or long sequences of mostly empty options)",
            )),
        }
    }
}

/// Any serde object that carries the meter along.
struct Metered<'m, X> {
    inner: X,
    meter: &'m Meter,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Metered<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let Self { inner: seed, meter } = self;
        seed.deserialize(Metered { inner, meter })
    }
}

/// Values that hold no others go straight to bincode.
macro_rules! pass_on {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metered<'_, D> {
    type Error = D::Error;

    pass_on! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64
        deserialize_char deserialize_str deserialize_bytes deserialize_unit deserialize_identifier
        deserialize_ignored_any
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_bytes(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_option(Inside::fixed(visitor, self.meter))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_newtype_struct(name, Inside::fixed(visitor, self.meter))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_tuple(len, Inside::fixed(visitor, self.meter))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_tuple_struct(name, len, Inside::fixed(visitor, self.meter))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_struct(name, fields, Inside::fixed(visitor, self.meter))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_enum(name, variants, Inside::fixed(visitor, self.meter))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_seq(Inside::growing(visitor, self.meter))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner
            .deserialize_map(Inside::growing(visitor, self.meter))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// A visitor or the access to the elements of a value that holds others. Those of a fixed number of
/// elements (structs, tuples, arrays) lie within what was charged for their container.
struct Inside<'m, X> {
    inner: X,
    meter: &'m Meter,
    grows: bool,
    index: u64,
}

impl<'m, X> Inside<'m, X> {
    fn fixed(inner: X, meter: &'m Meter) -> Self {
        Self {
            inner,
            meter,
            grows: false,
            index: 0,
        }
    }

    fn growing(inner: X, meter: &'m Meter) -> Self {
        Self {
            inner,
            meter,
            grows: true,
            index: 0,
        }
    }

    fn charge<E: Error>(&mut self, size: usize) -> Result<(), E> {
        if self.grows {
            self.meter.charge(self.index, size)?;
            self.index += 1;
        }
        Ok(())
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Metered {
            inner,
            meter: self.meter,
        })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Metered {
            inner,
            meter: self.meter,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self {
            inner: visitor,
            meter,
            grows,
            index,
        } = self;
        visitor.visit_seq(Inside {
            inner,
            meter,
            grows,
            index,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self {
            inner: visitor,
            meter,
            grows,
            index,
        } = self;
        visitor.visit_map(Inside {
            inner,
            meter,
            grows,
            index,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(Metered {
            inner,
            meter: self.meter,
        })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.charge(size_of::<S::Value>())?;
        self.inner.next_element_seed(Metered {
            inner: seed,
            meter: self.meter,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inside<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.charge(size_of::<S::Value>())?;
        self.inner.next_key_seed(Metered {
            inner: seed,
            meter: self.meter,
        })
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.charge(size_of::<S::Value>())?;
        self.inner.next_value_seed(Metered {
            inner: seed,
            meter: self.meter,
        })
    }
}

impl<'de, 'm, A: EnumAccess<'de>> EnumAccess<'de> for Metered<'m, A> {
    type Error = A::Error;
    type Variant = Metered<'m, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((
            value,
            Metered {
                inner,
                meter: self.meter,
            },
        ))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Metered<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Metered {
            inner: seed,
            meter: self.meter,
        })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner
            .tuple_variant(len, Inside::fixed(visitor, self.meter))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner
            .struct_variant(fields, Inside::fixed(visitor, self.meter))
    }
}
