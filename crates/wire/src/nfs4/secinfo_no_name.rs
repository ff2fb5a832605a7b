//! SECINFO_NO_NAME (RFC 8881, section 18.45): security flavors that the current object, or its parent,
//! requires.

use crate::{xdr_enum, xdr_struct};

pub use super::secinfo::{Res, ResOk};

xdr_enum! {
    /// secinfo_style4.
    pub enum Style {
        /// The current object.
        CurrentFh = 0,
        /// Its parent.
        Parent = 1,
    }
}

xdr_struct! {
    /// The arguments. Current handle: the object; afterwards none.
    #[derive(Copy)]
    pub struct Args {
        /// Object of the query.
        pub style: Style,
    }
}
