//! Procedures of an RPC program, with arguments and results, for all programs except NFSv4.

/// NULL: procedure 0 of every program but [`crate::peer`]. Does nothing (RFC 5531, section 12.1).
pub mod null {
    crate::xdr_struct! {
        /// No arguments.
        #[derive(Copy, Default)]
        pub struct Args {}

        /// No results.
        #[derive(Copy, Default)]
        pub struct Res {}
    }
}

/// Declares `Procedure`, `Call` and `Reply` of a program from one table. Each line has a procedure's number,
/// its variant, the module of its `Args` and `Res`, and its name in the RFC.
macro_rules! program {
    ($($(#[$meta:meta])* $number:literal $variant:ident $module:ident $name:literal;)+) => {
        $crate::xdr_enum! {
            /// A procedure of this program, by its number in the call's header.
            pub enum Procedure { $($(#[$meta])* $variant = $number,)+ }
        }

        impl Procedure {
            /// All procedures, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Name in the protocol's specification, for metrics and traces.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }

        /// Procedure with its arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)] // decoded once, and taken apart at once
        pub enum Call { $($(#[$meta])* $variant($module::Args),)+ }

        impl Call {
            /// Decodes a call from the procedure's number in the call's header, and the arguments after it.
            ///
            /// # Errors
            /// `ProcedureUnavailable` for an unknown number, `GarbageArguments` for malformed arguments.
            pub fn of_number(
                number: u32,
                arguments: &mut $crate::xdr::Decoder,
            ) -> Result<Self, $crate::rpc::Rejection> {
                let procedure =
                    Procedure::from_u32(number).ok_or($crate::rpc::Rejection::ProcedureUnavailable)?;
                Self::decode(procedure, arguments).map_err(|_| $crate::rpc::Rejection::GarbageArguments)
            }

            /// Decodes the arguments of `procedure`, after the call's header.
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

            /// Procedure of the call.
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

        /// Procedure with its results.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Reply { $($(#[$meta])* $variant($module::Res),)+ }

        impl Reply {
            /// Decodes the results of `procedure`, after the reply's header.
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

            /// Procedure of the reply.
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

/// Encodes `Result<T, Status>` as a union of a status and, when that is 0, a body. So `$status` has no value
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
