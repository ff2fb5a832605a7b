//! Settings of the whole cluster, in one table. Their values are in the cluster map, as text, so every
//! metaserver has the same values and follows a change as it applies the change.
//!
//! A new setting is one row here: its documentation, its type, its default and its check. `heorot set` and
//! `heorot get` then show it, and the code reads it as a field of [`Settings`]:
//! `server.cluster.settings().lease`.

use std::collections::BTreeMap;
use std::time::Duration;

use host::{size, time};
use namespace::{COLUMNS_MAX, COPIES_MAX};
use namespace::{PoolId, StripePolicy, StripeUnit, Verify};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Its effect, in one line.
    pub about: &'static str,
    /// Its value where none is set.
    pub default: &'static str,
    check: fn(&str) -> Result<(), String>,
}

/// Layout of new files in directories without a stripe policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultStripe {
    /// Bytes on one column before the next.
    pub unit: StripeUnit,
    /// Columns; 0: one on each target.
    pub columns: u32,
    /// Copies of each column.
    pub copies: u8,
}

/// Number of copies of new files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copies {
    /// Two once data servers are on two machines, else one.
    Auto,
    /// This number.
    Number(u8),
}

impl From<DefaultStripe> for StripePolicy {
    fn from(d: DefaultStripe) -> Self {
        Self { unit: d.unit, columns: d.columns, copies: d.copies, pool: PoolId::DEFAULT }
    }
}

macro_rules! settings {
    ($($(#[doc = $about:literal])+ $key:ident: $type:ty = $default:literal, $parse:expr;)+) => {
        /// The settings in force.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $about])+ pub $key: $type,)+
        }

        /// All settings.
        pub const SETTINGS: &[Setting] = &[$(Setting {
            key: stringify!($key),
            about: concat!($($about),+),
            default: $default,
            check: |text| {
                let value: Result<$type, String> = $parse(text);
                value.map(drop)
            },
        }),+];

        impl Settings {
            /// The settings of a cluster map. An unreadable value, set by a newer version, is logged and
            /// replaced by the default.
            #[must_use]
            pub fn of(values: &BTreeMap<String, String>) -> Self {
                Self { $($key: value(values, stringify!($key), $default, $parse),)+ }
            }
        }
    };
}

settings! {
    /// Lease of a client: one that is silent for longer can lose its locks and layouts.
    lease: Duration = "30s", |text| time_between(text, 5, 3600);
    /// Bytes of a new file on one target before the next; `heorot stripe` sets it for a directory.
    stripe_unit: StripeUnit = "1MiB", stripe_unit;
    /// Targets that a new file is striped over, 0 for all; `heorot stripe` sets it for a directory.
    stripe_columns: u32 = "4", |text| number_between(text, 0, COLUMNS_MAX);
    /// Copies of each column of a new file, on data servers of their own, 1 to 3; auto: 2 once data servers are on
    /// two machines; `heorot stripe` sets it for a directory.
    stripe_copies: Copies = "auto", copies;
    /// When blocks of file data are compared with their sums: read, at each read and by scrubs, or scrub, by scrubs
    /// only; `heorot pool set` sets it for a pool.
    verify: Verify = "read", verify;
    /// Time after which another target takes the place of one whose data server is silent, where there are copies.
    replace_after: Duration = "10m", |text| time_between(text, 10, 30 * 86_400);
    /// Whether data with copies move to other targets once one target is 5 % of its size fuller than another.
    rebalance: bool = "true", boolean;
    /// Time between two searches for objects that no file owns.
    clean_interval: Duration = "1d", |text| time_between(text, 10, 365 * 86_400);
    /// Time that removed objects are kept in the trash of their targets, 0s for not at all; room that is
    /// needed is taken from it.
    trash_time: Duration = "1d", |text| time_between(text, 0, 365 * 86_400);
    /// Whether metaservers read under a lease of the leader; false where the clock of a paused virtual
    /// machine stands still.
    read_leases: bool = "true", boolean;
    /// Whether a client that is the only one to write a file opens, locks and closes it without a call; close() then leaves
    /// the last 64 KiB to be written a moment later.
    write_delegations: bool = "true", boolean;
    /// TCP port at which metaservers answer machines that boot from images, by HTTP; 0: they do not.
    boot_http_port: u16 = "0", |text| number_between(text, 0, 65_535).map(|port| port as u16);
    /// UDP port at which they answer firmware that asks for its first file, by TFTP, which is 69; 0: they do not.
    boot_tftp_port: u16 = "0", |text| number_between(text, 0, 65_535).map(|port| port as u16);
    /// Domain of owners' names, as user@domain; empty: owners are numbers only.
    owner_domain: String = "", domain;
    /// Whether owners' names are given out, too, and not only understood; true only with owner_domain.
    owner_names: bool = "false", boolean;
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&BTreeMap::new())
    }
}

impl Settings {
    /// Layout of new files in directories without a stripe policy. `copies`: the number that holds for
    /// [`Copies::Auto`].
    #[must_use]
    pub fn stripe(&self, copies: u8) -> DefaultStripe {
        let copies = match self.stripe_copies {
            Copies::Auto => copies,
            Copies::Number(number) => number,
        };
        DefaultStripe { unit: self.stripe_unit, columns: self.stripe_columns, copies }
    }

    /// Checks that the settings agree with each other.
    ///
    /// # Errors
    /// A line that names the settings that disagree.
    pub fn check(&self) -> Result<(), String> {
        if self.owner_names && self.owner_domain.is_empty() {
            return Err(
                "owner_names gives names out with a domain, and owner_domain is empty: set that first".into(),
            );
        }
        Ok(())
    }
}

/// The row of a key.
///
/// # Errors
/// A line that lists all keys.
pub(crate) fn setting(key: &str) -> Result<&'static Setting, String> {
    let found = SETTINGS.iter().find(|setting| setting.key == key);
    found.ok_or_else(|| {
        let keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        format!("there is no setting {key:?}; there are {}", keys.join(", "))
    })
}

impl Setting {
    /// Checks that the setting can have this value.
    ///
    /// # Errors
    /// A line that says why the value is wrong, and names a right one.
    pub fn check(&self, text: &str) -> Result<(), String> {
        (self.check)(text).map_err(|why| format!("{}: {why}", self.key))
    }
}

fn value<T>(
    values: &BTreeMap<String, String>,
    key: &str,
    default: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> T {
    let set = values.get(key).and_then(|text| {
        parse(text)
            .inspect_err(|why| tracing::warn!(key, "setting not understood, its default holds: {why}"))
            .ok()
    });
    set.unwrap_or_else(|| parse(default).unwrap_or_else(|why| unreachable!("the default of {key}: {why}")))
}

fn time_between(text: &str, min_s: u64, max_s: u64) -> Result<Duration, String> {
    let (min, max) = (Duration::from_secs(min_s), Duration::from_secs(max_s));
    let given = time::parse(text)?;
    if given < min || given > max {
        return Err(format!("{text} is not a time from {} to {}", time::show(min), time::show(max)));
    }
    Ok(given)
}

fn number_between(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("{text:?} is not a number from {min} to {max}"))
}

fn copies(text: &str) -> Result<Copies, String> {
    if text == "auto" {
        return Ok(Copies::Auto);
    }
    let number = text.parse::<u8>().ok().filter(|number| (1..=COPIES_MAX).contains(&usize::from(*number)));
    number
        .map(Copies::Number)
        .ok_or_else(|| format!("{text:?} is neither auto nor a number from 1 to {COPIES_MAX}"))
}

/// When blocks are verified, as text.
#[must_use]
pub fn verify_text(verify: Verify) -> &'static str {
    match verify {
        Verify::Read => "read",
        Verify::Scrub => "scrub",
    }
}

/// # Errors
/// A line that says what there is.
pub fn verify(text: &str) -> Result<Verify, String> {
    let all = [Verify::Read, Verify::Scrub];
    let found = all.into_iter().find(|verify| verify_text(*verify) == text);
    found.ok_or_else(|| format!("{text:?} is neither read nor scrub"))
}

fn boolean(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| format!("{text:?} is neither true nor false"))
}

fn stripe_unit(text: &str) -> Result<StripeUnit, String> {
    let bytes = size::parse(text)?;
    let unit = u32::try_from(bytes).ok().and_then(StripeUnit::new);
    unit.ok_or_else(|| format!("{text:?} is not a multiple of 64KiB up to 1GiB"))
}

fn domain(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-';
    if text.len() <= 253 && text.bytes().all(fits) {
        Ok(text.into())
    } else {
        Err(format!("{text:?} is no domain such as example.org"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_that_could_be_set() {
        for setting in SETTINGS {
            assert_eq!(setting.check(setting.default), Ok(()));
            assert!(!setting.about.trim().is_empty());
        }
        let defaults = Settings::default();
        assert_eq!((defaults.lease, defaults.stripe_columns), (Duration::from_secs(30), 4));
    }

    #[test]
    fn a_value_is_checked_before_it_is_set_and_one_that_is_not_understood_is_the_default() {
        let check = |key: &str, value: &str| setting(key).and_then(|setting| setting.check(value));
        for (key, value, error) in [
            ("leases", "30s", "there is no setting \"leases\"; there are lease, stripe_unit"),
            ("lease", "30", "lease: \"30\" is not a time such as 90s"),
            ("lease", "4s", "lease: 4s is not a time from 5s to 1h"),
            ("stripe_unit", "100KiB", "stripe_unit: \"100KiB\" is not a multiple of 64KiB"),
            ("stripe_columns", "65", "stripe_columns: \"65\" is not a number from 0 to 64"),
            ("stripe_copies", "4", "stripe_copies: \"4\" is neither auto nor a number from 1 to 3"),
            ("verify", "never", "verify: \"never\" is neither read nor scrub"),
            ("read_leases", "yes", "read_leases: \"yes\" is neither true nor false"),
            ("owner_domain", "a@b", "owner_domain: \"a@b\" is no domain"),
        ] {
            let found = check(key, value).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
        let values = |all: &[(&str, &str)]| {
            Settings::of(&all.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        let set = values(&[("lease", "20s"), ("stripe_columns", "many"), ("of_a_newer_version", "x")]);
        assert_eq!((set.lease, set.stripe_columns), (Duration::from_secs(20), 4));
        assert_eq!((set.stripe(1).copies, set.stripe(2).copies), (1, 2));
        assert_eq!(values(&[("stripe_copies", "3")]).stripe(1).copies, 3);
        assert!(values(&[("owner_names", "true")]).check().is_err());
        assert_eq!(values(&[("owner_names", "true"), ("owner_domain", "example.org")]).check(), Ok(()));
    }
}
