//! Where the level of a noisy series changes, as `incident/change_points.py` asks it: penalised least squares, solved
//! exactly by optimal partitioning (Jackson et al. 2005, "An algorithm for optimal partitioning of data on an interval",
//! IEEE Signal Processing Letters 12).
//!
//! Pruning (PELT) finds the same and saves nothing where a level lasts, which is the slow case: every start of a last
//! segment stays in question. So all within reach are looked at, in memory in order, which is quick.

/// What all points up to each position come to.
struct Totals {
    weight: Vec<f64>,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

impl Totals {
    fn new(values: &[f64], weights: &[f64]) -> Self {
        let added = |of: &dyn Fn(f64, f64) -> f64| {
            let mut total = 0.0;
            let each = values.iter().zip(weights).map(|(&value, &weight)| {
                total += of(value, weight);
                total
            });
            std::iter::once(0.0).chain(each).collect()
        };
        Self {
            weight: added(&|_, weight| weight),
            sum: added(&|value, weight| weight * value),
            squares: added(&|value, weight| weight * value * value),
        }
    }
}

/// Borders, 0 and the length included, that minimise weighted squared deviations plus `penalty` for each change.
///
/// Segments have two points or more, and at most `longest`. Of last segments that cost the same the longest is taken.
pub fn best_borders(values: &[f64], weights: &[f64], penalty: f64, longest: usize) -> Vec<usize> {
    let count = values.len();
    let totals = Totals::new(values, weights);
    // The least that all before a position costs.
    let mut best = vec![f64::INFINITY; count + 1];
    best[0] = -penalty;
    let mut before = vec![0; count + 1];
    let mut costs = Vec::with_capacity(longest);
    for end in 2..=count {
        let first = end.saturating_sub(longest);
        let (weight, sum, squares) = (totals.weight[end], totals.sum[end], totals.squares[end]);
        let starts = first..end - 1;
        let levels = totals.weight[starts.clone()]
            .iter()
            .zip(&totals.sum[starts.clone()]);
        let known = best[starts.clone()].iter().zip(&totals.squares[starts]);
        costs.clear();
        costs.extend(known.zip(levels).map(
            |((best, squares_before), (weight_before, sum_before))| {
                let moved = sum - sum_before;
                best + squares - squares_before - moved * moved / (weight - weight_before)
            },
        ));
        let least = least(&costs);
        best[end] = least + penalty;
        before[end] = first + costs.iter().position(|&cost| cost <= least).unwrap_or(0);
    }
    let mut borders = vec![count];
    let mut last = count;
    while last > 0 {
        last = before[last];
        borders.push(last);
    }
    borders.reverse();
    borders
}

/// The least of `costs`, in eight lanes.
fn least(costs: &[f64]) -> f64 {
    let (chunks, rest) = costs.as_chunks::<8>();
    let mut lanes = [f64::INFINITY; 8];
    for chunk in chunks {
        for (lane, &cost) in lanes.iter_mut().zip(chunk) {
            *lane = if cost < *lane { cost } else { *lane };
        }
    }
    lanes
        .iter()
        .chain(rest)
        .fold(f64::INFINITY, |least, &cost| least.min(cost))
}
