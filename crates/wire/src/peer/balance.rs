//! BALANCE: how evenly the targets of each pool are filled.

use bytes::Bytes;

crate::xdr_struct! {
    /// The arguments.
    #[derive(Copy)]
    pub struct Args {
        /// True: the leader looks for chains to move now, also where it found none lately.
        pub look: bool,
    }

    /// One pool with targets.
    pub struct PoolBalance {
        /// Its name.
        pub pool: Bytes,
        /// Used bytes of the fullest target, in thousandths of all.
        pub fullest: u32,
        /// The same of the emptiest one.
        pub emptiest: u32,
        /// Id of the fullest target.
        pub fullest_target: u64,
        /// Id of the emptiest one.
        pub emptiest_target: u64,
        /// Chains that move from one target to another.
        pub moving: u32,
        /// Chains that lack a copy, or have one in another pool.
        pub incomplete: u32,
        /// The state.
        pub state: State,
    }

    /// The results.
    pub struct Res {
        /// None: the callee does not lead.
        pub pools: Option<Vec<PoolBalance>>,
    }
}

crate::xdr_enum! {
    /// State of the balance of a pool.
    pub enum State {
        /// The targets are equally full, but for a bound.
        Even = 0,
        /// Chains move.
        Moving = 1,
        /// Nothing moves before all chains are whole.
        Waiting = 2,
        /// Nothing moves before the objects are removed that chains have left behind.
        Cleaning = 3,
        /// The leader is about to look for chains to move.
        Looking = 4,
        /// The leader has found no chain that can move.
        InVain = 5,
    }
}
