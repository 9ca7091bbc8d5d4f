//! Cutting files into streams of about equal work.
//!
//! Work is counted in rows, not bytes: ten million equal values fit in a few bytes and still have to
//! be decoded. A piece is handed to the file scan as a byte range, which it maps back to rows in
//! proportion and moves to the next block boundary; ranges that tile a file give each row exactly once.

/// Fewer rows than this are not worth a stream of their own.
const MIN_ROWS: u64 = 65_536;

/// Size of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSize {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// A file, or a byte range of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index into the files.
    pub(crate) file: usize,
    /// Start and end in bytes; `None` for the whole file.
    pub(crate) range: Option<(i64, i64)>,
}

/// Exactly `streams` lists of pieces that together hold every file once. Surplus lists are empty.
pub(crate) fn split(files: &[FileSize], streams: usize) -> Vec<Vec<Piece>> {
    let mut result = vec![Vec::new(); streams];
    let total: u64 = files.iter().map(|file| file.rows).sum();
    if total == 0 {
        return result;
    }
    let per_stream = total.div_ceil(streams as u64).max(MIN_ROWS);
    let mut stream = 0;
    let mut room = per_stream;
    for (index, file) in files.iter().enumerate() {
        let mut row = 0;
        while row < file.rows {
            if room == 0 && stream + 1 < streams {
                stream += 1;
                room = per_stream;
            }
            let left = file.rows - row;
            // A rest too small for a stream of its own stays with the rows before it.
            let take = if stream + 1 == streams || left < room.saturating_add(MIN_ROWS / 2) { left } else { room };
            let range = (take < file.rows).then(|| (byte_at(file, row), byte_at(file, row + take)));
            result[stream].push(Piece { file: index, range });
            row += take;
            room = room.saturating_sub(take);
        }
    }
    result
}

/// The byte that stands for a row. The same row always gives the same byte, so neighbours meet.
fn byte_at(file: &FileSize, row: u64) -> i64 {
    let byte = u128::from(file.bytes) * u128::from(row) / u128::from(file.rows.max(1));
    i64::try_from(byte).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_tiling(files: &[FileSize], streams: usize) {
        let split = split(files, streams);
        assert_eq!(split.len(), streams);
        for (index, file) in files.iter().enumerate().filter(|(_, file)| file.rows > 0) {
            let pieces: Vec<Piece> = split.iter().flatten().filter(|piece| piece.file == index).copied().collect();
            if pieces.len() == 1 {
                assert_eq!(pieces[0].range, None);
                continue;
            }
            let mut next = 0;
            for piece in pieces {
                let (start, end) = piece.range.unwrap();
                assert_eq!(start, next);
                assert!(end >= start);
                next = end;
            }
            assert_eq!(next, i64::try_from(file.bytes).unwrap());
        }
    }

    #[test]
    fn pieces_tile_every_file() {
        let mut seed = 7u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let files: Vec<FileSize> =
                (0..random(12)).map(|_| FileSize { rows: random(3_000_000), bytes: random(50_000_000) }).collect();
            check_tiling(&files, 1 + random(20) as usize);
        }
    }

    #[test]
    fn large_files_are_cut_and_small_ones_are_not() {
        let large = FileSize { rows: 1_000_000, bytes: 1000 };
        let split_up = split(&[large], 4);
        assert!(split_up.iter().all(|pieces| pieces.len() == 1));
        let small = FileSize { rows: 10, bytes: 1000 };
        let split_up = split(&[small, small], 4);
        assert_eq!(split_up[0].len(), 2);
        assert!(split_up[1..].iter().all(Vec::is_empty));
    }
}
