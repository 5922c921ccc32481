//! `iotrace-recorder`: what `iotrace capture linux` does, for hosts where nothing may be installed. One static file.
//!
//! Reading and pairing the kernel's events is the same code (`capture/recorder`). What it writes is a folder of Arrow
//! streams, which `iotrace import` makes a recording of.

#[cfg(target_os = "linux")]
mod arguments;
#[cfg(target_os = "linux")]
mod counters;
#[cfg(target_os = "linux")]
mod devices;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod failure;
#[cfg(target_os = "linux")]
mod record;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod tracefs;

#[cfg(not(target_os = "linux"))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "error: this recorder is for Linux\n\nhint: iotrace capture plan writes scripts for a Windows host"
    );
    std::process::ExitCode::from(2)
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::io::{IsTerminal, Write, stderr};
    use std::process::ExitCode;

    use arguments::Command;

    let words = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned());
    let outcome = arguments::parse(words).and_then(|command| match command {
        Command::Help => {
            print!("{}", arguments::HELP);
            Ok(ExitCode::SUCCESS)
        }
        Command::Version => {
            println!("iotrace-recorder {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor { json } => Ok(doctor(json)),
        Command::Linux(options) => {
            let is_terminal = stderr().is_terminal();
            let outcome = record::record(&options, &mut |seconds, ios, bytes, lost| {
                if is_terminal {
                    let lost = if lost > 0 { format!(", {lost} events lost") } else { String::new() };
                    let mebibytes = bytes as f64 / f64::from(1 << 20);
                    eprint!("\r\x1b[K{seconds:.0} s, {ios} I/Os, {mebibytes:.1} MiB on disk{lost}");
                    let _ = stderr().flush();
                }
            })?;
            if is_terminal {
                eprintln!();
            }
            if outcome.ended != "normally" {
                eprintln!("warning: the recording ended early: {}; what there was is kept", outcome.ended);
            }
            let folder = options.output.display();
            eprintln!(
                "{} I/Os in {:.1} s, {} events lost: '{folder}'",
                outcome.ios, outcome.seconds, outcome.events_lost
            );
            eprintln!("copy that folder to where iotrace is, then: iotrace import {folder} -o NAME.iotrace");
            Ok(ExitCode::SUCCESS)
        }
    });
    outcome.unwrap_or_else(|problem| {
        eprintln!("{problem}");
        ExitCode::from(2)
    })
}

/// Exit status 1 if nothing can be recorded.
#[cfg(target_os = "linux")]
fn doctor(json: bool) -> std::process::ExitCode {
    let checks = doctor::examine();
    let problems = checks
        .iter()
        .filter(|check| check.level == "problem")
        .count();
    let can_record = problems == 0;
    if json {
        let checks: Vec<_> = checks.iter().map(doctor::Check::json).collect();
        println!(
            "{:#}",
            serde_json::json!({"can_record": can_record, "checks": checks})
        );
    } else {
        if can_record {
            println!("Everything needed to record is here");
        } else {
            let plural = if problems == 1 { "" } else { "s" };
            println!("Nothing can be recorded here yet: {problems} problem{plural}, named below");
        }
        for check in &checks {
            println!("{:8} {:13} {}", check.level, check.name, check.found);
            if !check.advice.is_empty() {
                println!("{:22} {}", "", check.advice);
            }
        }
    }
    std::process::ExitCode::from(u8::from(!can_record))
}
