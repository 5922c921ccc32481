//! What this host allows the recorder.

use std::fs;
use std::path::Path;

use _recorder::event::EVENTS;
use serde_json::{Value, json};

use crate::tracefs::{
    PLACE, buffer_bytes, clock_apart, find, lockdown, processors, remove_leftovers,
};

const KERNEL_MIN: (u32, u32) = (4, 9);
const BYTES_OF_AN_IO: u64 = 3 * 72;
const STAND_IN_IOPS: u64 = 100_000;

/// One thing looked at. `level`: ok, warning (something would be lost) or problem (no recording).
pub struct Check {
    pub name: &'static str,
    pub level: &'static str,
    pub found: String,
    pub advice: String,
}

impl Check {
    fn new(
        name: &'static str,
        level: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            name,
            level,
            found: found.into(),
            advice: advice.into(),
        }
    }

    /// As JSON, with the names that `iotrace capture doctor --json` uses.
    pub fn json(&self) -> Value {
        json!({"name": self.name, "level": self.level, "found": self.found, "advice": self.advice})
    }
}

/// Look. Changes nothing but the leftovers of recorders that were killed, which it removes.
pub fn examine() -> Vec<Check> {
    let mut checks = vec![kernel()];
    if lockdown().as_deref() == Some("confidentiality") {
        checks.push(Check::new(
            "lockdown",
            "problem",
            "the kernel is locked down (confidentiality): nobody may trace, root included",
            "boot with lockdown=integrity or without it",
        ));
    }
    if let Some((found, advice)) = clock_apart() {
        checks.push(Check::new("clock", "problem", found, advice));
    }
    let Ok(tracefs) = find() else {
        let advice =
            format!("sudo mount -t tracefs nodev {PLACE} (a container needs it from its host)");
        checks.push(Check::new("tracefs", "problem", "not mounted", advice));
        return checks;
    };
    checks.push(permission(&tracefs));
    if checks.iter().all(|check| check.level == "ok") {
        let missing: Vec<_> = EVENTS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| !tracefs.join("events/block").join(name).is_dir())
            .collect();
        checks.push(if missing.is_empty() {
            Check::new(
                "block events",
                "ok",
                format!("all {} are there", EVENTS.len()),
                "",
            )
        } else {
            Check::new(
                "block events",
                "problem",
                format!("this kernel lacks {}", missing.join(", ")),
                "use a kernel built with CONFIG_BLK_DEV_IO_TRACE; distributions' kernels have it",
            )
        });
    }
    checks.push(buffers());
    let removed = remove_leftovers(&tracefs.join("instances"));
    if !removed.is_empty() {
        let found = format!(
            "removed what killed recorders had left tracing: {}",
            removed.join(", ")
        );
        checks.push(Check::new("leftovers", "ok", found, ""));
    }
    checks
}

fn kernel() -> Check {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let (level, advice) = if version < KERNEL_MIN {
        ("problem", "the recorder needs Linux 4.9 or later")
    } else {
        ("ok", "")
    };
    Check::new("kernel", level, format!("Linux {release}"), advice)
}

/// Try it: whether a process may make an instance and write to it cannot be told from permissions alone.
fn permission(tracefs: &Path) -> Check {
    let instances = tracefs.join("instances");
    let probe = instances.join(format!("iotrace-{}-doctor", std::process::id()));
    let tried = fs::create_dir(&probe).and_then(|()| {
        let written = fs::write(probe.join("tracing_on"), "0");
        fs::remove_dir(&probe)?;
        written
    });
    let place = instances.display();
    match tried {
        Ok(()) => Check::new(
            "permission",
            "ok",
            format!("it may make trace instances in {place}"),
            "",
        ),
        Err(problem) => Check::new(
            "permission",
            "problem",
            format!("cannot make an instance in {place}: {problem}"),
            "run it with sudo; in a container, with the tracefs of its host, writable",
        ),
    }
}

fn buffers() -> Check {
    let (count, each) = (processors(), buffer_bytes());
    let on_one = each as f64 / (BYTES_OF_AN_IO * STAND_IN_IOPS) as f64;
    let seconds = on_one * count as f64;
    let found = format!(
        "{} KiB for each of {count} processors: at {STAND_IN_IOPS} I/Os a second the recorder may be kept from running \
         for about {seconds:.1} s before events are lost, {on_one:.1} s if one processor does all",
        each >> 10
    );
    if seconds < 1.0 {
        return Check::new(
            "buffers",
            "warning",
            found,
            "memory is short here; record when less is going on",
        );
    }
    Check::new("buffers", "ok", found, "")
}
