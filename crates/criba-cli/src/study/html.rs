//! The results as a page.

use super::conclusion;
use super::row::{Row, Setup, per};
use super::scatter::reads_against_bits;
use super::table::{heading, legend, table};
use crate::clock::median;
use crate::exit::Failure;
use crate::page::{self, figure};
use crate::plot::{self, Bars};

/// # Errors
///
/// When a plot cannot be drawn.
pub(crate) fn page(rows: &[Row], setup: &Setup<'_>) -> Result<String, Failure> {
    let body = format!(
        "<h1>What a lookup reads, filter by filter</h1>\n<p>{heading}</p>\n\
         <p class=\"conclusion\">{conclusion}</p>\n{table}{legend}{figures}\
         <p class=\"foot\">criba {version}, <code>criba study</code>. Points, bars and table are \
         measured; only the curves are theory.</p>\n",
        heading = page::escape(&heading(rows, setup)),
        conclusion = page::escape(&conclusion::sentence(rows, setup.args.residency)),
        table = page::table(&table(rows)),
        legend = page::list(&legend(rows, setup)),
        figures = figures(rows)?,
        version = env!("CARGO_PKG_VERSION"),
    );
    let title = format!("criba study: {}", setup.work.name);
    Ok(page::page(&title, &body))
}

fn figures(rows: &[Row]) -> Result<String, Failure> {
    let names: Vec<&str> = rows.iter().map(|row| row.setting.as_str()).collect();
    let values = |value: fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<f64>>();
    let bars = |series, decimals| {
        Bars {
            series,
            names: names.clone(),
            decimals,
        }
        .draw()
    };
    let reads = bars(
        vec![(
            plot::BLOOMIER,
            values(|row| per(row.counts.present.reads.calls, row.counts.present.lookups)),
        )],
        3,
    )?;
    let both = |present: Vec<f64>, absent: Vec<f64>| {
        vec![(plot::BLOOMIER, present), (plot::BLOOM, absent)]
    };
    let bytes = bars(
        both(
            values(|row| per(row.counts.present.reads.bytes, row.counts.present.lookups)),
            values(|row| per(row.counts.absent.reads.bytes, row.counts.absent.lookups)),
        ),
        0,
    )?;
    let cpu = bars(
        both(
            values(|row| median(&row.cpu.present)),
            values(|row| median(&row.cpu.absent)),
        ),
        2,
    )?;
    let sides = [("second", "present"), ("first", "absent")];
    let curves = [
        (
            "second",
            "Bloomier; curve: theory, 2^-bits for each run asked",
        ),
        (
            "first",
            "Bloom; curve: theory, blocked by lines of 512 bits, for each run asked",
        ),
        ("none", "no filter"),
    ];
    Ok([
        figure("Data blocks that an absent lookup reads", &reads_against_bits(rows)?, &curves),
        "<p>A Bloomier filter that names blocks rejects by its block bits: slot bits buy speed more \
         than rejections, and move its point to the right of the curve.</p>\n"
            .into(),
        figure("Reads of a present lookup", &reads, &[]),
        figure("Bytes read by a lookup", &bytes, &sides),
        figure("CPU time of a lookup, no filter = 1", &cpu, &sides),
    ]
    .concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::study::input::generate;
    use crate::study::row::tests::{default_args, example};
    use crate::study::workload::Workload;

    #[test]
    fn the_page_stands_alone_and_escapes() {
        let mut work = Workload::new(generate(30, 1), 4, 10, 1).unwrap();
        work.name = "<script>alert('x')</script>".into();
        let args = default_args();
        let setup = Setup {
            args: &args,
            work: &work,
            clock: Clock::Wall,
        };
        let rows = [
            example("none", 4000),
            example("bloom:10", 40),
            example("bloomier:slot", 3),
        ];
        let page = page(&rows, &setup).unwrap();
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
        assert_eq!(page.matches("<svg ").count(), 4);
        for foreign in ["src=", "href=", "url(", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert_eq!(page.matches("<tr>").count(), 1 + rows.len());
    }

    #[test]
    fn the_style_knows_every_colour() {
        for colour in [
            plot::INK,
            plot::GRID,
            plot::NONE,
            plot::BLOOM,
            plot::BLOOMIER,
        ] {
            let plotters::style::RGBColor(red, green, blue) = colour;
            let value = format!("\"#{red:02X}{green:02X}{blue:02X}\"");
            assert!(page::STYLE.contains(&value), "{value}");
        }
    }
}
