//! Structs and enums whose XDR form is their fields in order.

/// Struct that is encoded field by field, in the order of declaration.
#[macro_export]
macro_rules! xdr_struct {
    ($($(#[$meta:meta])* pub struct $name:ident { $($(#[$fmeta:meta])* pub $field:ident: $ty:ty,)* })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $($(#[$fmeta])* pub $field: $ty,)* }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, _e: &mut $crate::xdr::Encoder) {
                $($crate::xdr::Encode::encode(&self.$field, _e);)*
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(_d: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(Self { $($field: $crate::xdr::Decode::decode(_d)?,)* })
            }
        }
    )+};
}

/// Enum that is a number on the wire. An unknown number is a decode error.
#[macro_export]
macro_rules! xdr_enum {
    ($($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:expr,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum $name { $($(#[$vmeta])* $variant = $value,)+ }

        impl $name {
            /// Variant with this number, if the protocol has one.
            #[must_use]
            pub fn from_u32(value: u32) -> Option<Self> {
                $(if value == $value { return Some(Self::$variant); })+
                None
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                e.u32(*self as u32);
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(d: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::DecodeError> {
                let value = d.u32()?;
                Self::from_u32(value).ok_or($crate::xdr::DecodeError::Enum(value))
            }
        }
    )+};
}

/// Union `switch` over a number: each arm has a discriminant and fields of its own.
#[macro_export]
macro_rules! xdr_union {
    ($($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$vmeta:meta])* $value:literal => $variant:ident $(($ty:ty))?,)+
    })+) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum $name { $($(#[$vmeta])* $variant $(($ty))?,)+ }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                match self {
                    $($crate::xdr_union!(@pattern $name $variant inner $(($ty))?) => {
                        e.u32($value);
                        $($crate::xdr_union!(@encode inner e $ty);)?
                    })+
                }
            }
        }

        impl $crate::xdr::Decode for $name {
            fn decode(d: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::DecodeError> {
                match d.u32()? {
                    $($value => Ok(Self::$variant $((<$ty as $crate::xdr::Decode>::decode(d)?))?),)+
                    other => Err($crate::xdr::DecodeError::Enum(other)),
                }
            }
        }
    )+};
    (@pattern $name:ident $variant:ident $inner:ident) => { $name::$variant };
    (@pattern $name:ident $variant:ident $inner:ident ($ty:ty)) => { $name::$variant($inner) };
    (@encode $inner:ident $e:ident $ty:ty) => { <$ty as $crate::xdr::Encode>::encode($inner, $e) };
}
