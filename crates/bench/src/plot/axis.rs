//! Axis of a plot: positions of values, and ticks.

/// Axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Label, with its unit.
    pub label: String,
    /// Ticks, in ascending order.
    pub ticks: Vec<Tick>,
    min: f64,
    max: f64,
    log: bool,
}

/// Tick with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Value.
    pub at: f64,
    /// Label.
    pub text: String,
}

/// Ratio of the ends from which an axis is logarithmic.
const RATIO_FOR_LOG: f64 = 12.0;

impl Axis {
    /// Axis that includes all of `values` between round ends, logarithmic for a large range. Ignores values
    /// that are not finite and above zero.
    #[must_use]
    pub fn over(label: &str, values: impl IntoIterator<Item = f64>, name: impl Fn(f64) -> String) -> Self {
        let (least, greatest) = ends(values);
        Self::enclosing(label, least, greatest, greatest / least >= RATIO_FOR_LOG, name)
    }

    /// As [`Axis::over`], but logarithmic if `other` is: proportional values then form a straight line.
    #[must_use]
    pub fn over_as(
        other: &Self,
        label: &str,
        values: impl IntoIterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Self {
        let (least, greatest) = ends(values);
        Self::enclosing(label, least, greatest, other.log, name)
    }

    fn enclosing(label: &str, least: f64, greatest: f64, log: bool, name: impl Fn(f64) -> String) -> Self {
        let at = if log { decades(least, greatest) } else { steps(greatest) };
        let (min, max) = match (log, at.first(), at.last()) {
            (true, Some(first), Some(last)) if last > first => (least.min(*first), greatest.max(*last)),
            (true, ..) => (least * 0.5, greatest * 2.0),
            (false, _, Some(last)) => (0.0, greatest.max(*last)),
            _ => (least, greatest),
        };
        let ticks = at.into_iter().map(|at| Tick { at, text: name(at) }).collect();
        Self { label: label.into(), ticks, min, max, log }
    }

    /// Axis from the minimum of `values` to the maximum.
    #[must_use]
    pub fn within(label: &str, values: impl IntoIterator<Item = f64>, name: impl Fn(f64) -> String) -> Self {
        let (least, greatest) = ends(values);
        let mut axis = Self::over(label, [least, greatest], name);
        (axis.min, axis.max) = if least < greatest { (least, greatest) } else { (least * 0.5, least * 1.5) };
        axis.ticks.retain(|tick| (axis.min..=axis.max).contains(&tick.at));
        axis
    }

    /// Axis with ticks at these values only, and some space at both ends.
    #[must_use]
    pub fn at(label: &str, values: &[f64], name: impl Fn(f64) -> String) -> Self {
        let (least, greatest) = ends(values.iter().copied());
        let log = greatest / least >= RATIO_FOR_LOG;
        let (min, max) = if log {
            let margin = (greatest / least).powf(0.04);
            (least / margin, greatest * margin)
        } else if greatest > least {
            let margin = (greatest - least) * 0.04;
            (least - margin, greatest + margin)
        } else {
            (least * 0.5, least * 1.5)
        };
        let ticks = values.iter().map(|at| Tick { at: *at, text: name(*at) }).collect();
        Self { label: label.into(), ticks, min, max, log }
    }

    /// Position of a value: 0 at the beginning, 1 at the end.
    #[must_use]
    pub fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            // Differences of logarithms: the ratio of distant ends may exceed a double.
            let ln = |v: f64| v.max(f64::MIN_POSITIVE).ln();
            (ln(value) - ln(self.min)) / (ln(self.max) - ln(self.min))
        } else {
            (value - self.min) / (self.max - self.min)
        };
        place.clamp(0.0, 1.0)
    }
}

/// Minimum and maximum of the values that are finite and above zero.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let drawn = values.into_iter().filter(|v| v.is_finite() && *v > 0.0);
    let (least, greatest) = drawn.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(v), b.max(v)));
    if greatest > 0.0 { (least, greatest) } else { (1.0, 1.0) }
}

/// About five round values from zero, the last not below `greatest`.
fn steps(greatest: f64) -> Vec<f64> {
    let rough = greatest / 5.0;
    let decade = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|s| s * decade).find(|s| *s >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(decade * 10.0);
    let count = (greatest / step * (1.0 - 1e-9)).ceil() as u32;
    (0..=count.max(1)).map(|i| f64::from(i) * step).collect()
}

/// Powers of ten, also with factors 2 and 5 if there are few, that enclose both values.
fn decades(least: f64, greatest: f64) -> Vec<f64> {
    let first = least.log10().floor() as i32;
    let last = (greatest.log10().ceil() as i32).max(first + 1);
    let every = (last - first).unsigned_abs().div_ceil(9).max(1) as usize;
    let factors: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let powers = (first..=last).step_by(every).map(|p| 10_f64.powi(p));
    let all: Vec<f64> = powers.flat_map(|p| factors.iter().map(move |f| f * p)).collect();
    // Keep one value below the minimum and one above the maximum.
    let from = all.iter().rposition(|v| *v <= least * (1.0 + 1e-9)).unwrap_or(0);
    let to = all.iter().position(|v| *v >= greatest * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    all[from.min(to)..=to].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(axis: &Axis) -> Vec<f64> {
        axis.ticks.iter().map(|tick| tick.at).collect()
    }

    #[test]
    fn values_that_are_close_get_round_steps_from_zero() {
        let axis = Axis::over("", [3.0, 9.7], |v| v.to_string());
        assert_eq!(named(&axis), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!((axis.place(0.0), axis.place(5.0), axis.place(10.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn values_that_are_far_apart_get_equal_ratios() {
        let axis = Axis::over("", [1.0, 90.0], |v| v.to_string());
        assert_eq!(named(&axis), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert!((axis.place(10.0) - 0.5).abs() < 1e-9);
        assert_eq!(named(&Axis::over("", [1.0, 1e5], |v| v.to_string())), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }

    #[test]
    fn an_axis_within_has_no_room_beyond_its_values() {
        let axis = Axis::within("", [3.0, 700.0], |v| v.to_string());
        assert_eq!((axis.place(3.0), axis.place(700.0)), (0.0, 1.0));
        assert_eq!(named(&axis), [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn nothing_one_value_and_nonsense_have_axes_too() {
        let nonsense = [f64::NAN, f64::INFINITY, -3.0, 0.0];
        for axis in [
            Axis::over("", [], |v| v.to_string()),
            Axis::over("", nonsense, |v| v.to_string()),
            Axis::over("", [1e-300, 1e300], |v| v.to_string()),
            Axis::within("", [5.0], |v| v.to_string()),
            Axis::at("", &[5.0], |v| v.to_string()),
            Axis::at("", &[], |v| v.to_string()),
        ] {
            for value in nonsense.into_iter().chain([1.0, 1e308]) {
                let place = axis.place(value);
                assert!(value.is_nan() || (0.0..=1.0).contains(&place), "{axis:?} {value}");
            }
            assert!(axis.ticks.len() < 30, "{axis:?}");
        }
    }
}
