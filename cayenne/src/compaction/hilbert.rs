//! Positions on a Hilbert curve: a line through a cube of any dimension on which neighbours are neighbours in
//! space. Rows in its order have small ranges in *each* column of a block, which sorting gives for the first column only.
//!
//! The transformation is J. Skilling's ("Programming the Hilbert curve", AIP Conf. Proc. 707, 2004).

/// More dimensions would leave fewer than 8 bits for each.
pub(crate) const MAX_DIMENSIONS: usize = 16;

/// Bits of each coordinate for a number of dimensions.
pub(crate) fn bits(dimensions: usize) -> u32 {
    match dimensions {
        0..=4 => 32,
        more => 128 / u32::try_from(more).unwrap_or(128),
    }
}

/// The position of the cell with these coordinates, of which only the lowest `bits` bits are used. `cell` is
/// overwritten. `cell.len() * bits` must be at most 128.
pub(crate) fn position(cell: &mut [u32], bits: u32) -> u128 {
    let (Some(last), Some(top)) = (cell.len().checked_sub(1), bits.checked_sub(1)) else { return 0 };
    for bit in (1..=top).rev() {
        let (high, below) = (1u32 << bit, (1u32 << bit) - 1);
        for axis in 0..=last {
            if cell[axis] & high != 0 {
                cell[0] ^= below;
            } else {
                let swap = (cell[0] ^ cell[axis]) & below;
                cell[0] ^= swap;
                cell[axis] ^= swap;
            }
        }
    }
    // Gray code.
    for axis in 1..=last {
        cell[axis] ^= cell[axis - 1];
    }
    let mut flip = 0;
    for bit in (1..=top).rev() {
        if cell[last] & (1 << bit) != 0 {
            flip ^= (1u32 << bit) - 1;
        }
    }
    for coordinate in cell.iter_mut() {
        *coordinate ^= flip;
    }
    // The bits of the position are spread over the coordinates, highest first.
    let mut position = 0u128;
    for bit in (0..=top).rev() {
        for coordinate in cell.iter() {
            position = position << 1 | u128::from(*coordinate >> bit & 1);
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All cells of a cube in the order of the curve.
    fn walk(dimensions: usize, bits: u32) -> Vec<Vec<u32>> {
        let side = 1usize << bits;
        let cells = side.pow(u32::try_from(dimensions).unwrap());
        let mut line: Vec<Option<Vec<u32>>> = vec![None; cells];
        for number in 0..cells {
            let cell: Vec<u32> = (0..dimensions).map(|axis| (number / side.pow(axis as u32) % side) as u32).collect();
            let at = usize::try_from(position(&mut cell.clone(), bits)).unwrap();
            assert!(line[at].replace(cell).is_none(), "two cells at {at}");
        }
        line.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn the_curve_visits_every_cell_and_never_jumps() {
        for (dimensions, bits) in [(1, 8), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2)] {
            for pair in walk(dimensions, bits).windows(2) {
                let steps: u32 = pair[0].iter().zip(&pair[1]).map(|(a, b)| a.abs_diff(*b)).sum();
                assert_eq!(steps, 1, "{dimensions} dimensions: from {:?} to {:?}", pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn one_dimension_is_the_order_itself() {
        let mut last = None;
        for value in [0, 1, 2, 1_000, u32::MAX / 2, u32::MAX] {
            let at = position(&mut [value], 32);
            assert!(last.is_none_or(|last| last < at), "{value}");
            last = Some(at);
        }
        assert_eq!(position(&mut [], 32), 0);
    }

    #[test]
    fn every_number_of_dimensions_fits() {
        for dimensions in 1..=MAX_DIMENSIONS {
            let bits = bits(dimensions);
            assert!(bits >= 8 && bits as usize * dimensions <= 128);
            position(&mut vec![u32::MAX >> (32 - bits); dimensions], bits);
        }
    }
}
