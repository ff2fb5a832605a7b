//! Sweep of one parameter, or two, over a range: `clients=1..1000`, `clients=1..1024x2`,
//! `link=1Gbit/s..10Gbit/s+1Gbit/s`, `data-servers=4,8,12`.

use std::str::FromStr;

use super::parameter::{Kind, Parameter, Value};
use super::quantity::{CpuCost, Rate};
use super::setup::{Hardware, Load, Refused, Setup};
use super::solve::Solution;

/// Maximal number of points; more is a typing error, since the table has a line for each.
pub const POINTS_MAX: usize = 10_000;

/// Number of points in a range of speeds without a step.
const POINTS_OF_SPEEDS: i32 = 50;

/// Parameter and its values, in display order.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Varied parameter.
    pub parameter: Parameter,
    /// Values, at least one.
    pub values: Vec<Value>,
}

/// Point of a sweep.
#[derive(Debug, Clone)]
pub struct Point {
    /// Value of each swept parameter.
    pub at: Vec<(Parameter, Value)>,
    /// Setup at this point.
    pub setup: Setup,
    /// Solution at this point.
    pub solution: Solution,
}

/// All points, in nested order: for each value of the first sweep all values of the second, and so on.
///
/// # Errors
/// One line with the value of an inconsistent setup, and the reason.
pub fn points(hardware: &Hardware, load: &Load, sweeps: &[Sweep]) -> Result<Vec<Point>, String> {
    let count = sweeps.iter().fold(1_usize, |n, sweep| n.saturating_mul(sweep.values.len()));
    if count > POINTS_MAX {
        return Err(format!(
            "a sweep over {count} points; {POINTS_MAX} are the most: give a step, such as x2 or +10"
        ));
    }
    let mut combinations: Vec<Vec<(Parameter, Value)>> = vec![vec![]];
    for Sweep { parameter, values } in sweeps {
        let with = |at: &Vec<(Parameter, Value)>, value| [at.as_slice(), &[(*parameter, value)]].concat();
        combinations = combinations.iter().flat_map(|at| values.iter().map(move |v| with(at, *v))).collect();
    }
    let solve = |at: Vec<(Parameter, Value)>| {
        let setup = at_point(hardware, load, &at).map_err(|refused| format!("{}: {refused}", place(&at)))?;
        let solution = Solution::of(&setup);
        Ok(Point { at, setup, solution })
    };
    combinations.into_iter().map(solve).collect()
}

fn at_point(hardware: &Hardware, load: &Load, at: &[(Parameter, Value)]) -> Result<Setup, Refused> {
    let (mut hardware, mut load) = (*hardware, *load);
    for (parameter, value) in at {
        parameter.set(*value, &mut hardware, &mut load);
    }
    Setup::new(hardware, load)
}

fn place(at: &[(Parameter, Value)]) -> String {
    let parts: Vec<_> = at.iter().map(|(parameter, value)| format!("{parameter}={value}")).collect();
    parts.join(" ")
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "{text:?} is not a sweep such as clients=1..1000, clients=1..1024x2 or link=1Gbit/s,10Gbit/s: {why}"
            )
        };
        let (name, range) = text.split_once('=').ok_or_else(|| wrong("it has no ="))?;
        let parameter: Parameter = name.trim().parse().map_err(|e: String| wrong(&e))?;
        let values = values(parameter.kind(), range).map_err(|e| wrong(&e))?;
        Ok(Self { parameter, values })
    }
}

fn values(kind: Kind, text: &str) -> Result<Vec<Value>, String> {
    let Some((first, rest)) = text.split_once("..") else {
        return text.split(',').map(|value| kind.parse(value.trim())).collect();
    };
    let (last, step) = match rest.rsplit_once(['x', '+']) {
        Some((last, step)) => (last, Some((rest.as_bytes()[last.len()], step))),
        None => (rest, None),
    };
    let (first, last) = (kind.parse(first.trim())?, kind.parse(last.trim())?);
    if first.number() > last.number() {
        return Err(format!("{last} is less than {first}"));
    }
    let next: Box<dyn Fn(f64) -> f64> = match step {
        Some((b'x', factor)) => {
            let plain = factor.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let factor = factor.parse::<f64>().ok().filter(|f| plain && *f > 1.0 && f.is_finite());
            let factor = factor.ok_or("what stands after x must be a number above 1")?;
            // Counts are whole: 1, 2, 3, 5, 8 for x1.5.
            Box::new(
                move |at| if kind == Kind::Count { (at * factor).round().max(at + 1.0) } else { at * factor },
            )
        }
        Some((_, step)) => {
            let step = kind.parse(step)?.number();
            if step == 0.0 {
                return Err("a step of 0 leads nowhere".into());
            }
            Box::new(move |at| at + step)
        }
        None if kind == Kind::Count => Box::new(|at| at + 1.0),
        None => {
            let factor = (last.number() / first.number()).powf(f64::from(POINTS_OF_SPEEDS - 1).recip());
            Box::new(move |at| at * factor)
        }
    };
    let mut values = vec![first];
    let mut at = next(first.number());
    // The last value is always included; a value equal to it but for rounding is not.
    while at < last.number() * (1.0 - 1e-12) {
        values.push(match kind {
            Kind::Count => Value::Count(at as u64),
            Kind::Rate => Value::Rate(Rate::new(at)?),
            Kind::Cost => Value::Cost(CpuCost::new(at)?),
        });
        if values.len() >= POINTS_MAX {
            return Err(format!("it has more than {POINTS_MAX} points: give a greater step, such as x2"));
        }
        at = next(at);
    }
    values.extend((first != last).then_some(last));
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Vec<f64> {
        text.parse::<Sweep>().unwrap().values.into_iter().map(Value::number).collect()
    }

    #[test]
    fn ranges_have_both_their_ends() {
        assert_eq!(counts("clients=1..5"), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(counts("clients=1..20x2"), [1.0, 2.0, 4.0, 8.0, 16.0, 20.0]);
        assert_eq!(counts("clients=1..8x1.5"), [1.0, 2.0, 3.0, 5.0, 8.0]);
        assert_eq!(counts("data-servers=4,8,12"), [4.0, 8.0, 12.0]);
        assert_eq!(counts("clients=7..7"), [7.0]);
        assert_eq!(counts("clients=0..25+10"), [0.0, 10.0, 20.0, 25.0]);
        assert_eq!(counts("link=1GB/s..4GB/sx2"), [1e9, 2e9, 4e9]);
        assert_eq!(counts("disk=1MB/s..3MB/s+1MB/s"), [1e6, 2e6, 3e6]);
        let speeds = counts("link=100Mbit/s..10Gbit/s");
        assert_eq!((speeds.len(), speeds[0], speeds[49]), (50, 12.5e6, 1.25e9));
    }

    #[test]
    fn what_is_no_sweep_is_refused_in_one_line_that_says_why() {
        let cases = [
            ("clients", "no ="),
            ("clients=", "whole number"),
            ("clients=1..", "whole number"),
            ("clients=5..1", "less than"),
            ("clients=1..9x1", "above 1"),
            ("clients=1..9xinf", "above 1"),
            ("clients=1..9+0", "nowhere"),
            ("clients=1..9+1.5", "whole number"),
            ("clients=1..999999999", "more than 10000 points"),
            ("clients=1..99999999999999999999", "whole number"),
            ("clients=-1..5", "whole number"),
            ("link=1..5", "is not a rate"),
            ("servers=1..5", "data-servers"),
            ("link=1B/s..1GB/s+1B/s", "more than 10000 points"),
        ];
        for (text, why) in cases {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains(why) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
