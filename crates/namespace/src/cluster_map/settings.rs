//! Settings of the cluster: keys and values, in records of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::{StoreError, View};

use super::{MapHead, SETTING_KEY_BYTES_MAX, SETTING_VALUE_BYTES_MAX, SETTINGS_MAX, head};
use crate::plan::{Plan, Stop};
use crate::record::get;
use crate::{Error, Reply, keys};

/// Record of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub key: String,
    pub value: String,
}

/// Returns the changes that have an effect, each key once, and the resulting number of settings.
pub(super) fn check_settings<'a>(
    view: &dyn View,
    changes: &'a [(String, Option<String>)],
) -> Result<(BTreeMap<&'a str, Option<&'a str>>, u32), Stop> {
    let mut all = BTreeMap::new();
    let mut count = head(view)?.settings;
    for (key, value) in changes {
        let bytes = (key.len(), value.as_ref().map_or(0, String::len));
        if bytes.0 > SETTING_KEY_BYTES_MAX || bytes.1 > SETTING_VALUE_BYTES_MAX || key.is_empty() {
            return Err(Error::Invalid.into());
        }
        if all.insert(key.as_str(), value.as_deref()).is_some() {
            return Err(Error::Invalid.into());
        }
    }
    let mut changing = BTreeMap::new();
    for (key, value) in all {
        let known: Option<Setting> = get(view, &keys::setting(key))?;
        if known.as_ref().map(|setting| setting.value.as_str()) == value {
            continue;
        }
        match (known.is_some(), value.is_some()) {
            (false, true) => count += 1,
            (true, false) => count -= 1,
            _ => {}
        }
        changing.insert(key, value);
    }
    if count > SETTINGS_MAX { Err(Error::Invalid.into()) } else { Ok((changing, count)) }
}

pub(super) fn put_settings(
    plan: &mut Plan<'_>,
    changing: BTreeMap<&str, Option<&str>>,
) -> Result<(), StoreError> {
    for (key, value) in changing {
        match value {
            Some(value) => {
                plan.put(&keys::setting(key), &Setting { key: key.into(), value: value.into() })?
            }
            None => plan.delete(&keys::setting(key)),
        }
    }
    Ok(())
}

pub(super) fn set(plan: &mut Plan<'_>, changes: &[(String, Option<String>)]) -> Result<Reply, Stop> {
    let (changing, settings) = check_settings(plan.view(), changes)?;
    if !changing.is_empty() {
        let before = head(plan.view())?;
        plan.put(&keys::map_head(), &MapHead { version: before.version + 1, settings, ..before })?;
        put_settings(plan, changing)?;
    }
    Ok(Reply::Done)
}
