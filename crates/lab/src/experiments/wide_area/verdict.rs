//! What the samples say of the study's claims, each with a sentence for either outcome.

use super::cells::{Line, line_name, series};
use super::decoding::{Kind, Processor};
use super::{DISTRIBUTIONS, Distribution, OVERHEAD, PRINTED_DATA_FIRST, SETS, preference_figure};
use crate::experiment::{Sample, Verdict};

/// The study's best of all sets (section 6.2).
const PRINTED_BEST: [(&str, Kind, usize); 3] =
    [("slow regional", Kind::ReedSolomon, 10), ("regional", Kind::ReedSolomon, 5), ("hodgepodge", Kind::Ldpc, 100)];

/// Where the study has a rise with m beside the fall with n.
const RISES_WITH_M: [&str; 2] = ["slow regional", "hodgepodge"];

/// From this n on the study has Reed-Solomon decline.
const DECLINES_FROM: usize = 20;

pub(super) fn of(samples: &[Sample]) -> Verdict {
    let mut verdict = Verdict::default();
    for distribution in &DISTRIBUTIONS {
        trends(samples, distribution, &mut verdict);
    }
    for distribution in &DISTRIBUTIONS {
        kinds(samples, distribution, &mut verdict);
    }
    preferences(samples, &mut verdict);
    overheads(samples, &mut verdict);
    adaptive(samples, &mut verdict);
    verdict
}

/// Adds a sentence to what agrees or to what differs.
fn tell(verdict: &mut Verdict, agrees: bool, sentence: &str) {
    let text = if agrees { &mut verdict.agrees } else { &mut verdict.differs };
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(sentence);
}

fn at<'a>(samples: &'a [Sample], figure: &str, series: &str, x: usize) -> Option<&'a Sample> {
    samples.iter().find(|sample| sample.figure == figure && sample.series == series && sample.x == x as f64)
}

/// Is one more than the other by more than chance?
fn is_clearly_more(one: &Sample, other: &Sample) -> bool {
    one.y - other.y > one.error.hypot(other.error)
}

/// Pairs of cells at both ends of the rows (from the least m to the most), or of the columns (from the least n).
fn ends<'a>(samples: &'a [Sample], figure: &str, of_rows: bool) -> Vec<(&'a Sample, &'a Sample)> {
    let cells = samples.iter().filter(|sample| sample.figure == figure);
    let n = |cell: &Sample| cell.series.trim_start_matches("n = ").parse::<usize>().unwrap_or(0);
    let mut cells: Vec<(usize, usize, &Sample)> = cells
        .map(|cell| if of_rows { (n(cell), cell.x as usize, cell) } else { (cell.x as usize, n(cell), cell) })
        .collect();
    cells.sort_by_key(|(line, place, _)| (*line, *place));
    let lines = cells.chunk_by(|one, other| one.0 == other.0);
    lines.filter(|line| line.len() > 1).map(|line| (line[0].2, line[line.len() - 1].2)).collect()
}

/// Figures 2 to 4.
fn trends(samples: &[Sample], distribution: &Distribution, verdict: &mut Verdict) {
    let (rows, columns) = (ends(samples, distribution.grid, true), ends(samples, distribution.grid, false));
    if rows.is_empty() || columns.is_empty() {
        return;
    }
    let rising = rows.iter().filter(|(least, most)| is_clearly_more(most, least)).count();
    let falling = columns.iter().filter(|(least, most)| is_clearly_more(least, most)).count();
    let (rises, falls) = (2 * rising > rows.len(), 2 * falling > columns.len());
    let is_said_to_rise = RISES_WITH_M.contains(&distribution.name);
    let said = if is_said_to_rise { "rises with m and falls with n" } else { "falls with n and has no trend with m" };
    let sentence = format!(
        "{}: from the least m to the most speed rises clearly for {rising} of {} values of n, and from the least n to the most it \
         falls clearly for {falling} of {} values of m (the study: it {said}).",
        capital(distribution.name),
        rows.len(),
        columns.len()
    );
    tell(verdict, falls && rises == is_said_to_rise, &sentence);
}

/// Figure 6.
fn kinds(samples: &[Sample], distribution: &Distribution, verdict: &mut Verdict) {
    let of = |kind, processor, n| at(samples, distribution.sets, &line_name(kind, Line::Study(processor)), n);
    let pairs = |processor| {
        SETS.into_iter()
            .filter_map(move |(n, _)| Some((n, of(Kind::ReedSolomon, processor, n)?, of(Kind::Ldpc, processor, n)?)))
    };
    let overtaken = |processor| pairs(processor).find(|(_, rs, ldpc)| is_clearly_more(ldpc, rs)).map(|(n, ..)| n);
    let Some((widest, rs, ldpc)) = pairs(Processor::Study).next_back() else { return };
    let name = capital(distribution.name);
    let (then, now) = (overtaken(Processor::Study), overtaken(Processor::Ours));
    let overtakes = |n: Option<usize>| match n {
        Some(n) => format!("LDPC is first clearly faster than Reed-Solomon at n = {n}"),
        None => "LDPC is nowhere clearly faster than Reed-Solomon".to_owned(),
    };
    let sentence = format!(
        "{name}, decoding of 2004: {}; at n = {widest} LDPC has {:.1} Mbit/s and Reed-Solomon {:.1} (the study: LDPC is no better below n = 50, and much better above).",
        overtakes(then),
        ldpc.y,
        rs.y
    );
    let is_as_said = match then {
        Some(n) => n >= 50,
        // Nothing is said of where no wide set was measured.
        None => widest < 50,
    };
    tell(verdict, is_as_said, &sentence);
    if now != then {
        let sentence = format!("{name}, decoding of today: {}.", overtakes(now));
        tell(verdict, false, &sentence);
    }
    decline(&name, pairs(Processor::Study).map(|(n, rs, _)| (n, rs)), verdict);
    let all = pairs(Processor::Study).flat_map(|(n, rs, ldpc)| [(n, Kind::ReedSolomon, rs), (n, Kind::Ldpc, ldpc)]);
    let Some((n, kind, best)) = all.max_by(|one, two| one.2.y.total_cmp(&two.2.y)) else { return };
    let printed = PRINTED_BEST.iter().find(|(network, ..)| *network == distribution.name);
    let Some((_, printed_kind, printed_n)) = printed else { return };
    let set = |kind, n| format!("{} {n}+{n}", super::kind_name(kind));
    let sentence = format!(
        "{name}: the best set is {} with {:.1} Mbit/s (the study: {}).",
        set(kind, n),
        best.y,
        set(*printed_kind, *printed_n)
    );
    tell(verdict, (kind, n) == (*printed_kind, *printed_n), &sentence);
}

/// Reed-Solomon in wide sets.
fn decline<'a>(name: &str, sets: impl Iterator<Item = (usize, &'a Sample)>, verdict: &mut Verdict) {
    let wide: Vec<(usize, &Sample)> = sets.filter(|(n, _)| *n >= DECLINES_FROM).collect();
    let [(from, first), .., (to, last)] = &wide[..] else { return };
    let sentence = format!(
        "{name}: Reed-Solomon goes from {:.1} Mbit/s at n = {from} to {:.1} at n = {to} (the study: it declines).",
        first.y, last.y
    );
    tell(verdict, is_clearly_more(first, last), &sentence);
}

/// Table 4.
fn preferences(samples: &[Sample], verdict: &mut Verdict) {
    let (mut total, mut same, mut clear, mut clearly_other) = (0, 0, 0, 0);
    for (network, kind, is_first) in &PRINTED_DATA_FIRST {
        let line = series(*kind, network);
        for ((n, _), printed) in SETS.iter().zip(is_first) {
            let Some(share) = at(samples, preference_figure(*kind), &line, *n) else { continue };
            total += 1;
            let is_same = (share.y > 0.5) == *printed;
            same += usize::from(is_same);
            let is_clear = (share.y - 0.5).abs() > share.error;
            clear += usize::from(is_clear);
            clearly_other += usize::from(is_clear && !is_same);
        }
    }
    if total == 0 {
        return;
    }
    let sentence = format!(
        "Table 4: the better preference is the printed one in {same} of {total} cells; it is clear in {clear}, and clearly the other one in \
         {clearly_other}."
    );
    tell(verdict, 3 * same >= 2 * total, &sentence);
}

/// The appendix.
fn overheads(samples: &[Sample], verdict: &mut Verdict) {
    let asked = samples.iter().filter(|sample| sample.figure == OVERHEAD && sample.series.starts_with("LDPC"));
    let pairs = asked.filter_map(|sample| {
        let (n, printed) = SETS.into_iter().find(|(n, _)| *n as f64 == sample.x)?;
        Some((sample.y, printed / n as f64))
    });
    let (mut least, mut most, mut total, mut fewer) = (f64::INFINITY, 0.0f64, 0, 0);
    for (asked, printed) in pairs {
        (least, most) = (least.min(asked), most.max(asked));
        total += 1;
        fewer += usize::from(asked < printed);
    }
    if total == 0 {
        return;
    }
    let sentence = format!(
        "LDPC downloads ask for {least:.2} to {most:.2} blocks per data block, in {fewer} of {total} cells for fewer than the graphs need in \
         random order (appendix): the planner chooses blocks that suffice before it asks."
    );
    tell(verdict, fewer == 0, &sentence);
}

/// The profile that has no parameters.
fn adaptive(samples: &[Sample], verdict: &mut Verdict) {
    let (mut least, mut most, mut total, mut slower, mut faster) = (f64::INFINITY, 0.0f64, 0, 0, 0);
    for distribution in &DISTRIBUTIONS {
        for kind in [Kind::ReedSolomon, Kind::Ldpc] {
            for (n, _) in SETS {
                let of = |line| at(samples, distribution.sets, &line_name(kind, line), n);
                let Some((own, best)) = of(Line::Adaptive).zip(of(Line::Study(Processor::Ours))) else { continue };
                (least, most) = (least.min(own.y / best.y), most.max(own.y / best.y));
                total += 1;
                slower += usize::from(is_clearly_more(best, own));
                faster += usize::from(is_clearly_more(own, best));
            }
        }
    }
    if total == 0 {
        return;
    }
    let sentence = format!(
        "The adaptive profile, which has no parameters, has {least:.2} to {most:.2} of the speed of the study's best profile of each cell: it \
         is clearly faster in {faster} of {total} cells, and clearly slower in {slower}."
    );
    tell(verdict, false, &sentence);
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
