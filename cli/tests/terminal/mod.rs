//! A terminal with a program in it.
use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use nix::{
    pty::{Winsize, openpty},
    sys::termios::Termios,
};

/// Longest time until something is told.
const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(20);

/// What a person has before them: what the program tells, and keys that go to it.
pub struct Terminal {
    child: Child,
    keys: File,
    told: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program in a terminal of its own.
    pub fn start(mut command: Command) -> Self {
        let size = Winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(Some(&size), None::<&Termios>).expect("a terminal");
        let end = || pair.slave.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm");
        let child = command.spawn().expect("the program starts");
        // The program's own descriptors are the last ones, so that its end is the end of what can be read.
        drop((command, pair.slave));
        let mut screen = File::from(pair.master);
        let keys = screen.try_clone().expect("a descriptor");
        let told = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&told);
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut part) {
                written.lock().expect("not poisoned").extend_from_slice(&part[..read]);
            }
        });
        Self { child, keys, told }
    }

    /// All that was told so far, with what steers the terminal.
    pub fn told(&self) -> String {
        String::from_utf8_lossy(&self.told.lock().expect("not poisoned")).into_owned()
    }

    /// Keys, all at once.
    pub fn send(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("sent");
    }

    /// Waits until a text was told so many times.
    pub fn wait_for(&self, text: &str, times: usize) {
        let start = Instant::now();
        while self.told().matches(text).count() < times {
            assert!(start.elapsed() < LIMIT, "{text:?} was not told {times} times: {}", self.told());
            thread::sleep(PAUSE);
        }
    }

    /// Whether the program ends, and well.
    pub fn ends(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.success();
            }
            thread::sleep(PAUSE);
        }
        false
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
