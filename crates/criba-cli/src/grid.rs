//! Tables of text: aligned for a terminal, or taken over by a page.

/// What a table has in common with the page: heads and cells, as text.
pub(crate) struct Table {
    /// Two lines of heads, the upper one over groups of so many columns.
    pub(crate) groups: Vec<(&'static str, usize)>,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// What stands where there is no number.
pub(crate) const NONE: &str = "-";

impl Table {
    /// The table in two halves, so that a line fits a terminal: the first `upper` groups, then the
    /// others, both with the first `names` groups, which name the rows.
    pub(crate) fn in_halves(&self, names: usize, upper: usize) -> String {
        let spans = |groups: &[(&str, usize)]| groups.iter().map(|group| group.1).sum::<usize>();
        let (above, below) = self.groups.split_at(upper);
        let (named, middle) = (spans(&self.groups[..names]), spans(above));
        let columns: Vec<usize> = (0..middle).collect();
        let text = self.part(above, &columns, named);
        let groups: Vec<_> = self.groups[..names].iter().chain(below).copied().collect();
        let columns: Vec<usize> = (0..named).chain(middle..self.heads.len()).collect();
        format!("{text}\n{}", self.part(&groups, &columns, named))
    }

    /// The whole table, its first `named` columns to the left, all others to the right.
    pub(crate) fn whole(&self, named: usize) -> String {
        let columns: Vec<usize> = (0..self.heads.len()).collect();
        self.part(&self.groups, &columns, named)
    }

    fn part(&self, groups: &[(&str, usize)], columns: &[usize], named: usize) -> String {
        let heads: Vec<String> = self.heads.iter().map(|head| (*head).to_owned()).collect();
        let lines: Vec<&Vec<String>> = std::iter::once(&heads).chain(&self.rows).collect();
        let mut widths: Vec<usize> = columns
            .iter()
            .map(|&column| {
                lines
                    .iter()
                    .map(|line| line[column].len() + 2)
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut first = 0;
        for &(name, span) in groups {
            let own: usize = widths[first..first + span].iter().sum();
            let wanted = if name.is_empty() { 0 } else { name.len() + 2 };
            widths[first] += wanted.saturating_sub(own);
            first += span;
        }
        let mut text = String::new();
        let mut rest = widths.as_slice();
        for &(name, span) in groups {
            let (own, after) = rest.split_at(span.min(rest.len()));
            text.push_str(&format!(
                "{name:>width$}",
                width = own.iter().sum::<usize>()
            ));
            rest = after;
        }
        for line in lines {
            text.push('\n');
            for (place, (&column, &width)) in columns.iter().zip(&widths).enumerate() {
                let cell = &line[column];
                if place < named {
                    text.push_str(&format!("{cell:<width$}"));
                } else {
                    text.push_str(&format!("{cell:>width$}"));
                }
            }
        }
        text.lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }
}

/// A number with so many decimals, or a dash for none.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() {
        format!("{value:.decimals$}")
    } else {
        NONE.into()
    }
}

/// A probability in percent, with at least three digits that count.
pub(crate) fn rate(value: f64) -> String {
    let percent = value * 100.0;
    let decimals = match percent {
        _ if percent >= 10.0 => 1,
        _ if percent >= 1.0 => 2,
        _ if percent >= 0.1 => 3,
        _ if percent >= 0.01 || percent == 0.0 => 4,
        _ => 5,
    };
    if percent.is_finite() {
        format!("{percent:.decimals$}%")
    } else {
        NONE.into()
    }
}

/// A small number with three digits that count.
pub(crate) fn small(value: f64) -> String {
    if !value.is_finite() {
        return NONE.into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let digits = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.digits$}")
}

/// 1234567 as 1,234,567.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(
            ["0", "999", "1,000", "12,345,678"],
            [0, 999, 1000, 12_345_678].map(thousands)
        );
        assert_eq!(rate(0.0), "0.0000%");
        assert_eq!(rate(0.00949), "0.949%");
        assert_eq!(rate(0.000_244), "0.0244%");
        assert_eq!(rate(0.000_030_5), "0.00305%");
        assert_eq!(rate(1.0), "100.0%");
        assert_eq!(rate(f64::NAN), "-");
        assert_eq!(
            [0.269, 0.0021, 12.34, 0.0].map(small),
            ["0.269", "0.00210", "12.3", "0"]
        );
    }
}
