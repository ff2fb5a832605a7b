//! System calls on ranges of files on a mount of NFSv4.2: fallocate(2), lseek(2) for holes,
//! copy_file_range(2), and reflinks. The real client sends ALLOCATE, DEALLOCATE, SEEK, COPY and CLONE for
//! them.

use std::time::Duration;

use tests::{Client, Cluster, FileBytes, Lab};

const DATA_SERVERS: usize = 4;
const MINUTES: Duration = Duration::from_secs(240);

/// Numbers of fallocate and copy_file_range on x86-64, which perl does not have.
const CALLS: &str = r#"
use strict; use warnings; use Fcntl; use IO::Handle; use Errno;
sub allocate { syscall(285, fileno $_[0], 0, $_[1] + 0, $_[2] + 0) == 0 or die "fallocate $_[1] $_[2]: $!" }
sub punch { syscall(285, fileno $_[0], 3, $_[1] + 0, $_[2] + 0) == 0 or die "punch $_[1] $_[2]: $!" }
sub copy { # from, offset, to, offset, bytes
    my ($from, $at, $to, $where, $left) = @_;
    while ($left > 0) {
        my ($in, $out) = (pack("q", $at), pack("q", $where));
        my $n = syscall(326, fileno $from, $in, fileno $to, $out, $left + 0, 0);
        $n > 0 or die "copy_file_range $left from $at to $where: $n $!";
        $at += $n; $where += $n; $left -= $n;
    }
}
sub seek_to { # data (3) or hole (4); undef at the end
    my ($f, $what, $from) = @_;
    my $at = sysseek $f, $from, $what;
    return $at + 0 if defined $at;
    die "lseek $what $from: $!" unless $!{ENXIO};
    undef;
}
"#;

fn perl(client: &Client, program: &str) -> String {
    client.run_within(
        MINUTES,
        &format!("cat >/tmp/program.pl <<'END'\n{CALLS}\n{program}\nEND\nperl /tmp/program.pl"),
    )
}

fn mounted(lab: &Lab) -> (Cluster, Client) {
    let cluster = Cluster::separate(lab, DATA_SERVERS);
    let client = lab.client("ash");
    cluster.mount(&client, "vers=4.2");
    cluster.admin(&["stripe", "set", "/", "--unit", "64KiB", "--columns", "4"]);
    (cluster, client)
}

#[test]
fn programs_reserve_punch_and_find_holes() {
    let lab = Lab::open();
    let (_cluster, client) = mounted(&lab);
    client.run("cd /mnt/h; fallocate -l 10000001 reserved; [ $(stat -c %s reserved) = 10000001 ]; [ $(du -k reserved | cut -f1) -ge 9765 ]; cmp -n 10000001 reserved /dev/zero");
    client.run("cd /mnt/h; fallocate -l 20000000 reserved; [ $(stat -c %s reserved) = 20000000 ]; ! fallocate -l 1000T reserved 2>/tmp/error; grep -q 'No space' /tmp/error; [ $(stat -c %s reserved) = 20000000 ]");
    let out = client.run(
        "cd /mnt/h; head -c 5000000 /dev/urandom >/tmp/local; cp /tmp/local punched
         fallocate -p -o 1000000 -l 2000000 punched; fallocate -p -o 1000000 -l 2000000 /tmp/local
         cmp punched /tmp/local; [ $(stat -c %s punched) = 5000000 ]; echo 3 >/proc/sys/vm/drop_caches; cmp punched /tmp/local
         fallocate -p -o 4000000 -l 9000000 punched; fallocate -p -o 4000000 -l 9000000 /tmp/local; cmp punched /tmp/local
         stat -c '%s %b' punched /tmp/local",
    );
    println!("{out}");
    perl(
        &client,
        r#"
        my $unit = 65536;
        open my $f, "+>", "/mnt/h/sparse" or die;
        # Written and not yet closed: the data servers have it, and the metaserver has not been told.
        for my $at (1, 6, 30) { sysseek $f, $at * $unit, 0; syswrite($f, "x" x $unit) == $unit or die }
        my @expected = ([0, 1, 0], [1, 1, 2], [2, 6, 2], [7, 30, 7], [30, 30, 31]);
        for (@expected) {
            my ($from, $data, $hole) = map { $_ * $unit } @$_;
            my ($d, $h) = (seek_to($f, 3, $from), seek_to($f, 4, $from));
            ($d == $data && $h == $hole) or die "from $from: data $d, hole $h";
        }
        defined seek_to($f, 3, 31 * $unit) and die "data beyond the end";
        truncate $f, 40 * $unit or die;
        defined seek_to($f, 3, 31 * $unit) and die "data in the last hole";
        close $f or die;
        "#,
    );
    client.run("cd /mnt/h; cp --sparse=always sparse again; cmp sparse again; cp --sparse=auto sparse /tmp/here; cmp sparse /tmp/here; [ $(stat -c %b /tmp/here) -le 600 ]; cd /; umount /mnt/h");
}

#[test]
fn cp_copies_on_the_data_servers() {
    let lab = Lab::open();
    let (cluster, client) = mounted(&lab);
    client.run_within(MINUTES, "cd /mnt/h; head -c 150000001 /dev/urandom >source; sync; mkdir wide");
    cluster.admin(&["stripe", "set", "/wide", "--unit", "1MiB", "--columns", "3"]);
    for target in ["same", "wide/other"] {
        let before = cluster.traffic();
        let took = client.run_within(MINUTES, &format!("cd /mnt/h; time cp source {target}"));
        let moved = cluster.traffic().since(&before);
        println!("{target}: {took}");
        assert_eq!(moved.metaserver, FileBytes::default(), "no byte through the metaserver");
        assert_eq!(moved.straight(), FileBytes::default(), "and none through the client: {moved:?}");
        client.run_within(
            MINUTES,
            &format!("cd /mnt/h; [ $(stat -c %s {target}) = 150000001 ]; cmp source {target}"),
        );
    }
    // From a file that is still being written, and within one file.
    perl(
        &client,
        r#"
        open my $a, "+>", "/mnt/h/a" or die; open my $b, "+>", "/mnt/h/b" or die;
        my $text = join "", map { "$_\n" } 1 .. 100_000;
        syswrite($a, $text) == length $text or die;
        copy($a, 1000, $b, 77, 300_000);
        copy($a, 0, $a, 1_000_003, 200_000);
        close $a or die; close $b or die;
        sub slurp { local $/; open my $f, "<", $_[0] or die; scalar <$f> }
        slurp("/mnt/h/b") eq "\0" x 77 . substr($text, 1000, 300_000) or die "b differs";
        my $a2 = $text . "\0" x (1_000_003 - length $text) . substr($text, 0, 200_000);
        slurp("/mnt/h/a") eq $a2 or die "a differs";
        "#,
    );
    // A required reflink is refused, since this disk cannot share data.
    let refused = client.try_run("cd /mnt/h; cp --reflink=always source clone");
    assert_ne!(refused.status, 0);
    assert!(refused.text.contains("Operation not supported"), "{}", refused.text);
    client.run_within(
        MINUTES,
        "cd /mnt/h; cp --reflink=auto source clone; cmp source clone; cd /; umount /mnt/h",
    );
}

/// Two clients: a hole or a copy of one is visible to the other after its open.
#[test]
fn another_client_sees_what_was_done_to_a_range() {
    let lab = Lab::open();
    let (cluster, ash) = mounted(&lab);
    let elm = lab.client("elm");
    cluster.mount(&elm, "vers=4.2");
    let text = r#"text() { perl -e 'print "$ARGV[0]\n" x 400_000' $1 | dd bs=1000000 count=2 iflag=fullblock status=none; }; cd /mnt/h"#;
    ash.run(&format!("{text}; text yes >f; text no >g; sha256sum f g >/tmp/sums"));
    elm.run("cd /mnt/h; sha256sum f g >/dev/null");
    ash.run("fallocate -p -o 65536 -l 1000000 /mnt/h/f");
    elm.run(&format!("{text}; text yes >/tmp/f; fallocate -p -o 65536 -l 1000000 /tmp/f; cmp f /tmp/f"));
    elm.run(&format!("{text}; cp g f; cmp f g; text no | cmp - f"));
    ash.run("cd /mnt/h; cmp f g; cd /; umount /mnt/h");
    elm.run("umount /mnt/h");
}

/// Random operations, on a file of the mount and on one in memory.
#[test]
fn random_ranges_are_as_on_a_local_file() {
    let lab = Lab::open();
    let (_cluster, client) = mounted(&lab);
    let out = perl(
        &client,
        r#"
        srand 7; $| = 1;
        my ($max, %done) = (3_000_000);
        my @files = map { my $dir = $_; [map { open my $f, "+>", "$dir/$_" or die; $f } "one", "two"] } "/mnt/h", "/tmp";
        my $bytes = join "", map { chr(1 + int rand 255) } 1 .. 400_000;
        sub slurp { my $f = shift; my $n = -s $f; sysseek $f, 0, 0; my $x = ""; while ($n > length $x) { sysread($f, $x, 1 << 20, length $x) or die "read: $!" } $x }
        for my $step (1 .. 300) {
            my ($which, $at, $len, $from) = (int rand 2, int rand $max, 1 + int rand 300_000, int rand 400_000);
            my $what = (qw(write write allocate punch copy copy self cut sync))[int rand 9];
            for my $pair (@files) {
                my ($f, $other) = @$pair[$which, 1 - $which];
                my $size = -s $f;
                if ($what eq "write") { sysseek $f, $at, 0; my $n = $len > 400_000 - $from ? 400_000 - $from : $len; syswrite($f, $bytes, $n, $from) == $n or die "write: $!" }
                elsif ($what eq "allocate") { allocate($f, $at, $len) }
                elsif ($what eq "punch") { punch($f, $at, $len) }
                elsif ($what eq "copy") { my $begin = $size ? ($from * 7) % $size : 0; my $n = $size - $begin < $len ? $size - $begin : $len; copy($f, $begin, $other, $at, $n) if $n }
                elsif ($what eq "self") { my $begin = $size ? ($from * 7) % $size : 0; my $n = $size - $begin < $len ? $size - $begin : $len; copy($f, $begin, $f, $begin + $n + $from, $n) if $n }
                elsif ($what eq "cut") { truncate $f, $at or die "truncate: $!" }
                else { $f->sync or die "sync: $!" }
            }
            $done{$what}++;
            for my $n (0, 1) {
                my ($a, $b) = (slurp($files[0][$n]), slurp($files[1][$n]));
                $a eq $b or die "step $step, $what $len at $at of $which: file $n differs: " . length($a) . " and " . length($b) . " bytes";
            }
            if ($step % 50 == 0) { for my $n (0, 1) { $files[0][$n]->sync or die } system "echo 3 >/proc/sys/vm/drop_caches" }
        }
        close $_ or die for @{$files[0]};
        system("cmp /mnt/h/$_ /tmp/$_") == 0 or die for "one", "two";
        print join(" ", map { "$_ $done{$_}" } sort keys %done), "\n";
        "#,
    );
    println!("{out}");
    client.run("umount /mnt/h");
}
