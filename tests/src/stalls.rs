//! Work of clients that runs until a stop, of which every operation must succeed; long operations are noted
//! with their time, for comparison with the faults of servers.

use std::fmt;
use std::time::{Duration, Instant};

use crate::{Client, Running};

/// Prefix of the perl scripts: `timed NAME, SUB` dies if SUB fails, and notes operations longer than 0.1 s;
/// `stopped` tells whether to end; `done_round` counts.
const TIMED: &str = r#"
use Fcntl qw(:DEFAULT :flock :seek); use Time::HiRes qw(time); use strict;
our ($name, $rounds) = (shift @ARGV, 0);
sub timed { my ($what, $do) = @_; my $began = time; my $ok = $do->(); my $why = $!; my $took = time - $began;
    if ($took > 0.1) { open my $note, ">>", "/tmp/$name.stalls" or die; printf $note "%.3f %.3f %s\n", $began, $took, $what }
    $ok or die sprintf("%s, round %d: %s: %s (after %.3f s)\n", $name, $rounds, $what, $why, $took); $ok }
sub stopped { -e "/tmp/stop" }
sub done_round { $rounds++; open my $said, ">", "/tmp/$name.next" or die; print $said $rounds; close $said;
    rename "/tmp/$name.next", "/tmp/$name.rounds" or die }
sub content { my ($file) = @_; my ($f, $text); timed("open", sub { open $f, "<", $file });
    timed("read", sub { local $/; defined($text = <$f>) }); close $f; $text }
"#;

/// Running work on a client.
pub struct Work<'a> {
    client: &'a Client,
    name: String,
    running: Running,
}

/// Stall: an operation that took long.
#[derive(Debug, Clone)]
pub struct Stall {
    /// Begin in seconds since 1970, by the client's clock.
    pub began: f64,
    /// Duration.
    pub took: Duration,
    /// Operation and work.
    pub what: String,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s: {}", self.took.as_secs_f64(), self.what)
    }
}

impl<'a> Work<'a> {
    /// Starts `perl` with `arguments`; `name` must be unique on this client.
    #[must_use]
    pub fn begin(client: &'a Client, name: &str, perl: &str, arguments: &[&str]) -> Work<'a> {
        let arguments: Vec<String> = arguments.iter().map(|argument| format!("'{argument}'")).collect();
        client.run(&format!("rm -f /tmp/stop /tmp/{name}.*; echo 0 >/tmp/{name}.rounds"));
        let script = format!("perl -e '{TIMED}{perl}' {name} {}", arguments.join(" "));
        Work { client, name: name.to_owned(), running: client.spawn(&script) }
    }

    /// Waits for `rounds` more rounds.
    ///
    /// # Panics
    /// If the work ends, or needs more than two minutes.
    #[track_caller]
    pub fn does_more(&mut self, rounds: u64) {
        let (begun, first) = (Instant::now(), self.rounds());
        while self.rounds() < first + rounds {
            if self.running.is_done() {
                let said = self.client.run(&format!("cat /tmp/{}.stalls 2>&1 || true", self.name));
                panic!("{} ended, untold; its stalls:\n{said}", self.name);
            }
            assert!(begun.elapsed() < LONG, "{}: {rounds} rounds after {first} were waited for", self.name);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether the work has ended, which is an error.
    pub fn is_done(&self) -> bool {
        self.running.is_done()
    }

    fn rounds(&self) -> u64 {
        self.client.run(&format!("cat /tmp/{}.rounds", self.name)).trim().parse().expect("a number of rounds")
    }

    /// Stops the work (and all work on its client), and returns its output and its stalls.
    ///
    /// # Panics
    /// If an operation failed, or the final check did.
    #[track_caller]
    pub fn end(self) -> (String, Vec<Stall>) {
        let Work { client, name, running } = self;
        client.run("touch /tmp/stop");
        let said = running.wait(LONG).must_succeed(&name);
        let stall = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut seconds = || words.next()?.parse::<f64>().ok();
            let (began, took) = (seconds()?, Duration::from_secs_f64(seconds()?));
            Some(Stall { began, took, what: format!("{} of {name}", words.next()?) })
        };
        let stalls = client.run(&format!("cat /tmp/{name}.stalls 2>/dev/null || true"));
        (said, stalls.lines().filter_map(stall).collect())
    }
}

/// Time of the client's clock.
pub fn clock(client: &Client) -> f64 {
    client.run("date +%s.%N").trim().parse().expect("a time")
}

const LONG: Duration = Duration::from_secs(180);

/// Creates, writes, renames, links and removes files and folders; in the end all files exist with their
/// content.
pub const EVERYTHING: &str = r#"
my $dir = shift @ARGV;
for ($dir, "$dir/work", "$dir/done") { mkdir $_ or die "mkdir $_: $!" }
until (stopped()) {
    my ($new, $old) = ("$dir/work/f$rounds", "$dir/done/f$rounds");
    my $file;
    timed("create", sub { sysopen $file, $new, O_RDWR | O_CREAT | O_EXCL });
    timed("write", sub { syswrite($file, "round $rounds") });
    timed("close", sub { close $file });
    timed("rename", sub { rename $new, $old });
    timed("link", sub { link $old, $new });
    timed("unlink", sub { unlink $new });
    timed("mkdir", sub { mkdir "$new.d" });
    timed("rmdir", sub { rmdir "$new.d" });
    done_round();
}
my @there = glob "$dir/done/*"; die scalar(@there) . " files of $rounds\n" unless @there == $rounds;
die "left over\n" if glob "$dir/work/*";
for my $n (0 .. $rounds - 1) { my $text = content("$dir/done/f$n"); die "f$n: $text\n" unless $text eq "round $n" }
print "$rounds\n";
"#;

/// Creates files in a folder of its own.
pub const CREATES: &str = r#"
my $dir = shift @ARGV; mkdir $dir or die "mkdir $dir: $!";
until (stopped()) {
    my $file;
    timed("create", sub { sysopen $file, "$dir/f$rounds", O_WRONLY | O_CREAT | O_EXCL });
    timed("close", sub { close $file });
    done_round();
}
opendir my $all, $dir or die; my $there = grep { /^f/ } readdir $all;
die "$there files of $rounds\n" unless $there == $rounds;
print "$rounds\n";
"#;

/// Renames files between folders, sometimes over an existing one. Each file is always in exactly one place.
pub const RENAMES: &str = r#"
my $dir = shift @ARGV; my $files = 8;
for ($dir, map { "$dir/$_" } 0 .. 2) { mkdir $_ or die "mkdir $_: $!" }
my @at = (0) x $files;
for my $f (0 .. $files - 1) { open my $new, ">", "$dir/0/f$f" or die "$!"; print $new "f$f"; close $new or die "$!" }
until (stopped()) {
    my $f = $rounds % $files; my $to = ($at[$f] + 1) % 3;
    if ($rounds % 5 == 0) { my $there; timed("create", sub { open $there, ">", "$dir/$to/f$f" }); close $there }
    timed("rename", sub { rename "$dir/$at[$f]/f$f", "$dir/$to/f$f" });
    $at[$f] = $to;
    done_round();
}
for my $f (0 .. $files - 1) { for my $in (0 .. 2) {
    die "f$f in $in\n" if (-e "$dir/$in/f$f" ? 1 : 0) != ($at[$f] == $in ? 1 : 0);
} die "f$f\n" unless content("$dir/$at[$f]/f$f") eq "f$f" }
print "$rounds\n";
"#;

/// Replaces a file by a new one, repeatedly.
pub const REPLACES: &str = r#"
my ($path) = @ARGV;
until (stopped()) {
    my $f;
    timed("create", sub { open $f, ">", "$path.new" }); print $f "$rounds $rounds"; timed("close", sub { close $f });
    timed("rename", sub { rename "$path.new", $path });
    done_round();
}
print "$rounds\n";
"#;

/// Reads a file that another client replaces: it always exists, is whole, and never gets older.
pub const WATCHES: &str = r#"
my ($path) = @ARGV; my $last = -1;
until (stopped()) {
    my $text = content($path); $text =~ /^(\d+) (\d+)$/ && $1 == $2 or die "half a file: $text\n";
    die "$1 after $last\n" if $1 < $last; $last = $1;
    done_round();
}
print "$rounds\n";
"#;

/// Increments a number under a lock that other clients take, too; prints the number of increments.
pub const COUNTS: &str = r#"
my $file = shift @ARGV;
until (stopped()) {
    my $f;
    timed("open", sub { sysopen $f, $file, O_RDWR | O_CREAT });
    timed("lock", sub { flock $f, LOCK_EX });
    my $n = ""; defined(sysread $f, $n, 20) or die "read: $!"; $n = ($n || 0) + 1;
    sysseek $f, 0, SEEK_SET; timed("write", sub { syswrite $f, $n });
    timed("unlock", sub { close $f });
    done_round();
}
print "$rounds\n";
"#;

/// Writes a file of `mib` MiB repeatedly, a MiB at a time, each sent to the data servers at once without a
/// call to a metaserver (sync_file_range, number 277 of x86-64: no COMMIT, no LAYOUTCOMMIT); then an fsync,
/// which needs a metaserver. Reads the whole file back in the end.
pub const DATA: &str = r#"
use IO::Handle;
my ($path, $mib) = @ARGV; my $size = 1 << 20;
sub block { my ($n, $round) = @_; my $head = sprintf "%08d %08d\n", $n, $round;
    $head x int($size / length $head) . "x" x ($size % length $head) }
sysopen my $f, $path, O_RDWR | O_CREAT or die "open $path: $!";
until (stopped() && $rounds) {
    for my $n (0 .. $mib - 1) {
        my $block = block($n, $rounds); sysseek $f, $n * $size, SEEK_SET or die "seek: $!";
        timed("write", sub { my $w = syswrite $f, $block; defined $w && $w == $size });
        timed("data", sub { syscall(277, fileno $f, $n * $size, $size, 7) == 0 });
    }
    timed("fsync", sub { $f->sync });
    done_round();
}
close $f or die "close: $!";
open my $drop, ">", "/proc/sys/vm/drop_caches" or die "$!"; print $drop "3\n"; close $drop;
open my $r, "<", $path or die "$!"; binmode $r; local $/ = \$size;
for my $n (0 .. $mib - 1) { my $got = <$r>; die "block $n\n" unless $got eq block($n, $rounds - 1) }
print "$rounds\n";
"#;

/// Makes files of a MiB, reads each back, truncates it and makes it longer again, and removes the one before; with
/// pauses, so that other work goes on beside it.
pub const LARGE_FILES: &str = r#"
my ($dir) = @ARGV; mkdir $dir or die "mkdir $dir: $!";
my $block = "0123456789abcdef" x (1 << 16);
until (stopped()) {
    my ($name, $f, $g, $got) = "$dir/f$rounds";
    timed("create", sub { sysopen $f, $name, O_RDWR | O_CREAT | O_EXCL });
    timed("write", sub { my $w = syswrite $f, $block; defined $w && $w == length $block });
    timed("close", sub { close $f });
    open my $drop, ">", "/proc/sys/vm/drop_caches" or die "$!"; print $drop "1\n"; close $drop;
    timed("open", sub { sysopen $g, $name, O_RDWR });
    $got = "";
    timed("read", sub { sysread $g, $got, length $block; 1 }); die "round $rounds\n" unless $got eq $block;
    timed("truncate", sub { truncate $g, 1000 });
    timed("extend", sub { truncate $g, 200000 });
    sysseek $g, 0, SEEK_SET;
    timed("read", sub { sysread $g, $got, 200000; 1 });
    die "bytes of before in round $rounds\n" unless $got eq substr($block, 0, 1000) . "\0" x 199000;
    timed("close", sub { close $g });
    timed("unlink", sub { $rounds == 0 || unlink "$dir/f" . ($rounds - 1) });
    done_round(); select undef, undef, undef, 0.1;
}
print "$rounds\n";
"#;

/// Makes a file of `mib` MiB each round, durably, and removes the one of six rounds before; reads those that are
/// left in the end.
pub const FILES: &str = r#"
use IO::Handle;
my ($dir, $mib) = @ARGV; my ($size, $kept) = (1 << 20, 6); mkdir $dir or die "mkdir $dir: $!";
sub block { my ($n, $round) = @_; my $head = sprintf "%08d %08d\n", $n, $round;
    $head x int($size / length $head) . "x" x ($size % length $head) }
until (stopped() && $rounds) {
    my $f;
    timed("create", sub { sysopen $f, "$dir/f$rounds", O_WRONLY | O_CREAT | O_EXCL });
    for my $n (0 .. $mib - 1) { timed("write", sub { my $w = syswrite $f, block($n, $rounds); defined $w && $w == $size }) }
    timed("fsync", sub { $f->sync });
    timed("close", sub { close $f });
    my $old = $rounds - $kept;
    timed("unlink", sub { unlink "$dir/f$old" }) if $old >= 0;
    done_round();
}
open my $drop, ">", "/proc/sys/vm/drop_caches" or die "$!"; print $drop "3\n"; close $drop;
for my $round (($rounds > $kept ? $rounds - $kept : 0) .. $rounds - 1) {
    open my $r, "<", "$dir/f$round" or die "f$round: $!"; binmode $r; local $/ = \$size;
    for my $n (0 .. $mib - 1) { my $got = <$r>; die "f$round, block $n\n" unless $got eq block($n, $round) }
}
print "$rounds\n";
"#;

/// Unpacks a tar file, compares, and removes all files, each step by a program of its own.
pub const UNPACKS: &str = r#"
my ($dir, $tar, $tree) = @ARGV;
mkdir $dir or die "mkdir: $!";
until (stopped() && $rounds) {
    system("tar", "-C", $dir, "-xf", $tar) == 0 or die "tar\n";
    system("diff", "-r", $tree, "$dir/tree") == 0 or die "diff\n";
    system("rm", "-r", "$dir/tree") == 0 or die "rm\n";
    timed("listing", sub { opendir my $d, $dir; my @all = grep { !/^[.]/ } readdir $d; !@all });
    done_round();
}
print "$rounds\n";
"#;
