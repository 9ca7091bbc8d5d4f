//! Reading Prometheus text.

/// The sum of all samples of a metric, whatever their labels; 0 if there is none.
pub(super) fn sum(text: &str, name: &str) -> f64 {
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        // Not a longer name.
        let rest = if rest.starts_with('{') { rest.split_once('}')?.1 } else { rest };
        rest.strip_prefix(' ')?.trim().parse::<f64>().ok()
    });
    samples.sum()
}
