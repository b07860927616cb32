//! The list of the papers' figures, and the pages that are made of it.

use quorate_lab::experiments::{Instrument, Judgement, Profile, Row, Verdict, read};
use quorate_runner::page::Finding;
use quorate_runner::page::reproduction::{CATALOGUE, Catalogue, PAGES_DIR, render};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn catalogue() -> Catalogue {
    Catalogue::parse(CATALOGUE).unwrap_or_else(|fault| panic!("{fault}"))
}

#[test]
fn every_experiment_is_in_the_catalogue_and_every_file_of_it_exists() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut files = BTreeSet::new();
    for paper in fs::read_dir(&experiments).expect("the directory is there") {
        let paper = paper.expect("an entry").path();
        for file in fs::read_dir(&paper).into_iter().flatten() {
            let file = file.expect("an entry").path();
            if file.extension().is_some_and(|extension| extension == "toml") {
                let name = file.strip_prefix(&experiments).expect("it is below").display().to_string();
                files.insert(name);
            }
        }
    }
    assert!(files.len() > 10, "{files:?}");
    let catalogue = catalogue();
    let listed: Vec<&str> = catalogue.entries.iter().filter_map(|entry| entry.file.as_deref()).collect();
    assert_eq!(listed.iter().map(|file| (*file).to_owned()).collect::<BTreeSet<_>>(), files);
    for entry in &catalogue.entries {
        let own = entry.file.as_deref().is_none_or(|file| file.starts_with(&format!("{}/", entry.paper)));
        assert!(own, "{} of {} has the file of another paper", entry.figure, entry.paper);
    }
}

#[test]
fn no_figure_is_listed_twice() {
    let catalogue = catalogue();
    let all: BTreeSet<_> = catalogue.entries.iter().map(|entry| (&entry.paper, &entry.figure)).collect();
    assert_eq!(all.len(), catalogue.entries.len());
    // The papers have 12, 3, 9, 11 and 13 figures, three tables and the equations; the other entries come from their
    // text.
    let count = |paper: &str, prefix: &str| {
        catalogue.entries.iter().filter(|own| own.paper == paper && own.figure.starts_with(prefix)).count()
    };
    let counts = [("transports", "Figure"), ("signatures", "Fig."), ("lossmodel", "Fig."), ("pipeline", "Figure")];
    assert_eq!(counts.map(|(paper, prefix)| count(paper, prefix)), [12, 3, 9, 11]);
    assert_eq!((count("framework", "Figure"), count("framework", "Table"), count("transports", "Table")), (13, 1, 2));
}

#[test]
fn an_entry_says_what_became_of_it() {
    let paper = "[[paper]]\nname = \"p\"\ntitle = \"A title\"\n";
    let entry = |more: &str| format!("{paper}[[entry]]\npaper = \"p\"\nfigure = \"1\"\nshows = \"x\"\n{more}");
    assert!(Catalogue::parse(&entry("needs = \"time\"")).is_ok());
    for (more, words) in
        [("", "but not both"), ("drawing = true\nfile = \"p/1.toml\"", "but not both"), ("need = 1", "need")]
    {
        let fault = Catalogue::parse(&entry(more)).expect_err(more).to_string();
        assert!(fault.contains("experiments/catalogue.toml") && fault.contains(words), "{fault}");
    }
    let fault =
        Catalogue::parse(&entry("needs = \"x\"").replace("name = \"p\"", "name = \"q\"")).expect_err("no paper");
    assert!(fault.to_string().contains("there is no such paper"), "{fault}");
}

fn judgement(id: &str, verdict: Verdict, overturned: Option<&str>) -> Judgement {
    Judgement {
        id: id.to_owned(),
        text: "A text.".to_owned(),
        verdict,
        measured: "batch 1: 2 | batch 2: <3".to_owned(),
        paper: "3, section 5".to_owned(),
        instrument: Instrument::Simulated,
        overturned: overturned.map(str::to_owned),
    }
}

#[test]
fn the_pages_have_verdicts_and_missing_parts() {
    let text = "[[paper]]\nname = \"p\"\ntitle = \"A title\"\nauthors = \"A, 2020\"\n\
        [[entry]]\npaper = \"p\"\nfigure = \"Figure 1\"\nshows = \"this\"\nfile = \"p/one.toml\"\nneeds = \"BLS\"\n\
        [[entry]]\npaper = \"p\"\nfigure = \"Figure 2\"\nshows = \"that\"\nneeds = \"SCTP\"\n\
        [[entry]]\npaper = \"p\"\nfigure = \"Figure 3\"\nshows = \"more\"\nfile = \"p/three.toml\"\n\
        [[entry]]\npaper = \"p\"\nfigure = \"Figure 4\"\nshows = \"boxes\"\ndrawing = true\n";
    let catalogue = Catalogue::parse(text).expect("it is sound");
    let experiment = "title = \"One\"\npaper = \"p\"\nabout = \"x\"\ninstruments = [\"simulated\"]\n\
        [[axis]]\nkey = \"batch\"\nvalues = [1, 2]\n";
    let experiment =
        read(experiment, "experiments/p/one.toml", quorate_lab::figures::vocabulary()).expect("it is sound");
    let plan = experiment.plan(Profile::Quick, None).expect("it has cells");
    let mut row = Row {
        experiment: experiment.name(),
        instrument: Instrument::Simulated,
        profile: Profile::Quick,
        cell: plan.cells[0].values(),
        repetition: 0,
        figures: Default::default(),
        series: Default::default(),
        samples: Vec::new(),
        stages: Vec::new(),
        noise: None,
        failure: None,
        not_measurable: None,
        warnings: Vec::new(),
        provenance: Default::default(),
    };
    row.provenance.surroundings.build = "0.1.0 commit 123abc".to_owned();
    row.provenance.surroundings.machine = "virtual time".to_owned();
    let rows = [row.clone(), Row { repetition: 1, failure: Some("it hung".into()), ..row }];
    let claims = [judgement("a", Verdict::Holds, None), judgement("b", Verdict::Fails, Some("It is\nfaster."))];
    let pages = render(&catalogue, &[Finding { plan: &plan, rows: &rows, claims: &claims }]);
    for line in [
        "## p\n\nA title (A, 2020).",
        "| [Figure 1](reproduction/p.md#figure-1) | this | quick: 1 of 2 hold |",
        "| [Figure 2](reproduction/p.md#figure-2) | that | not there yet |",
        "| [Figure 3](reproduction/p.md#figure-3) | more | Not run. |",
        "Nothing to measure: Figure 4 (boxes).",
        "- simulated: virtual time, build 0.1.0 commit 123abc\n",
    ] {
        assert!(pages.index.contains(line), "{line}\n{}", pages.index);
    }
    let [(file, page)] = &pages.papers[..] else { panic!("{:?}", pages.papers) };
    assert_eq!(file, "p.md");
    for line in [
        "## Figure 1\n\nShows this. Experiment [p/one](../../experiments/p/one.toml), without BLS.",
        "\n\nProfile quick, 2 runs, 1 failed:\n\n\
         - `a` **holds** (simulated): batch 1: 2 \\| batch 2: &lt;3; paper: 3, section 5.\n- `b` **does not hold**",
        "paper: 3, section 5. It is faster.\n",
        "## Figure 2\n\nShows that. Not there yet: needs SCTP.",
        "## Figure 3\n\nShows more. Experiment [p/three](../../experiments/p/three.toml).\n\nNot run.",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn the_pages_in_the_docs_have_every_figure() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let index = fs::read_to_string(docs.join("REPRODUCTION.md")).expect("it is there");
    for entry in catalogue().entries {
        assert!(index.contains(&entry.figure) && index.contains(&entry.shows), "{} of {}", entry.figure, entry.paper);
        let page = docs.join(PAGES_DIR).join(format!("{}.md", entry.paper));
        let page = fs::read_to_string(page).expect("each paper has a page");
        assert!(
            entry.drawing || page.contains(&format!("## {}\n", entry.figure)),
            "{} of {}",
            entry.figure,
            entry.paper
        );
    }
}
