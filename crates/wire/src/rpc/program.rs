//! What every RPC program has: a list of procedures, each with arguments and results. Used by all of ours but
//! NFS 4.

/// Declares `Procedure`, `Call` and `Reply` of a program from one table. Each line names a procedure's
/// number, its variant, the module that holds its `Args` and `Res`, and its name in the RFC.
macro_rules! program {
    ($($(#[$meta:meta])* $number:literal $variant:ident $module:ident $name:literal;)+) => {
        $crate::xdr_enum! {
            /// A procedure of this program, by its number in the call's header.
            pub enum Procedure { $($(#[$meta])* $variant = $number,)+ }
        }

        impl Procedure {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in the protocol's text, for metrics and traces.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        /// A procedure with its arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Call { $($(#[$meta])* $variant($module::Args),)+ }

        impl Call {
            /// Reads the arguments of `procedure`, which follow the call's header.
            ///
            /// # Errors
            /// [`DecodeError`](crate::xdr::DecodeError) when they are malformed: answered GARBAGE_ARGS.
            pub fn decode(
                procedure: Procedure,
                d: &mut $crate::xdr::Decoder,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(match procedure {
                    $(Procedure::$variant => Self::$variant($crate::xdr::Decode::decode(d)?),)+
                })
            }

            /// The procedure called.
            #[must_use]
            pub const fn procedure(&self) -> Procedure {
                match self { $(Self::$variant(_) => Procedure::$variant,)+ }
            }
        }

        impl $crate::xdr::Encode for Call {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                match self { $(Self::$variant(args) => $crate::xdr::Encode::encode(args, e),)+ }
            }
        }

        /// A procedure with its results.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reply { $($(#[$meta])* $variant($module::Res),)+ }

        impl Reply {
            /// Reads the results of `procedure`, which follow the reply's header.
            ///
            /// # Errors
            /// [`DecodeError`](crate::xdr::DecodeError) when they are malformed.
            pub fn decode(
                procedure: Procedure,
                d: &mut $crate::xdr::Decoder,
            ) -> Result<Self, $crate::xdr::DecodeError> {
                Ok(match procedure {
                    $(Procedure::$variant => Self::$variant($crate::xdr::Decode::decode(d)?),)+
                })
            }

            /// The procedure that this answers.
            #[must_use]
            pub const fn procedure(&self) -> Procedure {
                match self { $(Self::$variant(_) => Procedure::$variant,)+ }
            }
        }

        impl $crate::xdr::Encode for Reply {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                match self { $(Self::$variant(res) => $crate::xdr::Encode::encode(res, e),)+ }
            }
        }
    };
}
pub(crate) use program;

/// Writes `Result<T, Status>` as the union of a status and, when that is 0, a body. So `$status` has no value
/// 0.
macro_rules! status_union {
    ($status:ty) => {
        impl<T: $crate::xdr::Encode> $crate::xdr::Encode for Result<T, $status> {
            fn encode(&self, e: &mut $crate::xdr::Encoder) {
                match self {
                    Ok(body) => {
                        e.u32(0);
                        body.encode(e);
                    }
                    Err(status) => status.encode(e),
                }
            }
        }

        impl<T: $crate::xdr::Decode> $crate::xdr::Decode for Result<T, $status> {
            fn decode(d: &mut $crate::xdr::Decoder) -> Result<Self, $crate::xdr::DecodeError> {
                match d.u32()? {
                    0 => Ok(Ok(T::decode(d)?)),
                    other => match <$status>::from_u32(other) {
                        Some(status) => Ok(Err(status)),
                        None => Err($crate::xdr::DecodeError::Enum(other)),
                    },
                }
            }
        }
    };
}
pub(crate) use status_union;
