//! The geometry: rows of elements, projections of bins, and the order in which elements follow from bins.

use alloc::vec;
use alloc::vec::Vec;

/// An element of the grid: (row, column).
pub type Element = (usize, usize);

/// `k` rows of `l` elements, and the directions `(p, 1)` that it is projected along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows, each a data block.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
    /// The `p` of each projection, ascending.
    pub directions: Vec<isize>,
}

/// A recovered element and the bin that it follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The element.
    pub element: Element,
    /// Index of the projection whose bin is used.
    pub projection: usize,
    /// The bin; all its other elements are known by then.
    pub bin: usize,
}

impl Grid {
    /// A grid with this many projections, in directions around 0: `p_i = i - floor(n / 2)`.
    #[must_use]
    pub fn new(rows: usize, columns: usize, projection_count: usize) -> Grid {
        let middle = (projection_count / 2) as isize;
        Grid { rows, columns, directions: (0..projection_count as isize).map(|index| index - middle).collect() }
    }

    /// Bins of the projection: `(k - 1) |p| + l`.
    #[must_use]
    pub fn bin_count(&self, projection: usize) -> usize {
        (self.rows - 1) * self.directions[projection].unsigned_abs() + self.columns
    }

    /// The bin that the element falls into: `column + row p - min(0, (k - 1) p)`.
    #[must_use]
    pub fn bin(&self, projection: usize, (row, column): Element) -> usize {
        (column as isize + self.shift(projection, row)) as usize
    }

    /// The elements of a bin, by row.
    pub fn elements(&self, projection: usize, bin: usize) -> impl Iterator<Item = Element> + '_ {
        (0..self.rows).filter_map(move |row| {
            let column = bin as isize - self.shift(projection, row);
            (0..self.columns as isize).contains(&column).then_some((row, column as usize))
        })
    }

    /// The shift of the row on its way into the projection; never negative.
    fn shift(&self, projection: usize, row: usize) -> isize {
        let p = self.directions[projection];
        row as isize * p - ((self.rows as isize - 1) * p).min(0)
    }

    /// How far the recovery of each lost row runs ahead of that of the last one, for ascending rows and one projection
    /// each, of descending direction: `ahead[j - 1] = ahead[j] + p_j (row_j - row_(j - 1))`, shifted to a minimum of 0.
    #[must_use]
    pub fn ahead(&self, lost_rows: &[usize], projections: &[usize]) -> Vec<usize> {
        let mut ahead = vec![0; lost_rows.len()];
        for j in (1..lost_rows.len()).rev() {
            let rows_between = (lost_rows[j] - lost_rows[j - 1]) as isize;
            ahead[j - 1] = ahead[j] + self.directions[projections[j]] * rows_between;
        }
        let least = ahead.iter().copied().min().unwrap_or(0);
        ahead.into_iter().map(|columns| (columns - least) as usize).collect()
    }

    /// The number of columns between the points at which a line of the projection meets two rows.
    pub(super) fn moved(&self, projection: usize, from_row: usize, to_row: usize) -> isize {
        (from_row as isize - to_row as isize) * self.directions[projection]
    }

    /// All elements of the lost rows (ascending), in an order in which each is the only unknown one of its bin. Takes
    /// as many projections as rows, of descending direction. Row `j` is recovered from projection `j`, starting at the
    /// corners (Normand, Kingston, Evenou 2006).
    pub fn recoveries(&self, lost_rows: &[usize], projections: &[usize]) -> Vec<Recovery> {
        let recovery = |(position, column): (usize, usize)| {
            let (element, projection) = ((lost_rows[position], column), projections[position]);
            Recovery { element, projection, bin: self.bin(projection, element) }
        };
        self.recovery_order(lost_rows, projections).map(recovery).collect()
    }

    /// The order of [`Grid::recoveries`]: positions among the lost rows, and columns.
    pub(super) fn recovery_order(
        &self,
        lost_rows: &[usize],
        projections: &[usize],
    ) -> impl DoubleEndedIterator<Item = (usize, usize)> + use<> {
        let ahead = self.ahead(lost_rows, projections);
        let first = ahead.iter().max().map_or(0, |&most| -(most as isize));
        let (row_count, columns) = (ahead.len(), self.columns as isize);
        let place_count = (columns - first) as usize * row_count;
        (0..place_count).filter_map(move |place| {
            let position = place % row_count;
            let column = first + (place / row_count) as isize + ahead[position] as isize;
            (0..columns).contains(&column).then_some((position, column as usize))
        })
    }
}
