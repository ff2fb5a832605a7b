//! Scripts for clients in bash and perl (perl-base and coreutils are on every Debian), each a function of its
//! working folder. They keep notes and local copies in the client's own /tmp.

/// Writes `FILES` C files in `FOLDERS` folders with a Makefile and the expected output of the program into a
/// tar file, the same bytes every time. Unpacks it, compares it with a copy in memory, compiles it, runs it,
/// and removes it.
#[must_use]
pub fn source_tree(dir: &str) -> String {
    format!("D={dir}\n{MAKE_SOURCE_TREE}\n{USE_SOURCE_TREE}")
}

/// Writes only the tar file /tmp/tree.tar, and its content under /tmp/tree.
#[must_use]
pub fn make_source_tree() -> &'static str {
    MAKE_SOURCE_TREE
}

const MAKE_SOURCE_TREE: &str = r##"
rm -rf /tmp/tree /tmp/tree.tar; mkdir /tmp/tree
perl -e '
    my ($files, $folders, $sum, $calls) = (80, 8, 0, "");
    for my $i (0 .. $files - 1) {
        my $folder = sprintf "/tmp/tree/part%02d", $i % $folders;
        mkdir $folder;
        open my $c, ">", sprintf("%s/f%03d.c", $folder, $i) or die;
        # Sizes from nothing much to 25 KiB, most of it comment so that the compiler is quick.
        print $c "#include \"../all.h\"\n", "/* Every line of this is here to be stored. */\n" x ($i * 37 % 500);
        print $c "int f$i(int x) { return x * $i + ", $i % 7, "; }\n";
        $sum += 3 * $i + $i % 7;
        $calls .= "    sum += f$i(3);\n";
        $declarations .= "int f$i(int x);\n";
    }
    open my $h, ">", "/tmp/tree/all.h" or die;
    print $h "#ifndef ALL_H\n#define ALL_H\n$declarations#endif\n";
    open my $m, ">", "/tmp/tree/main.c" or die;
    print $m "#include <stdio.h>\n#include \"all.h\"\nint main(void) {\n    long sum = 0;\n$calls";
    print $m "    printf(\"%ld\\n\", sum);\n    return 0;\n}\n";
    open my $k, ">", "/tmp/tree/Makefile" or die;
    print $k "parts := \$(wildcard part*)\nobjects := \$(parts:%=%/part.o) main.o\n";
    print $k "program: \$(objects)\n\t\$(CC) -o \$@ \$^\nmain.o: main.c all.h\n\t\$(CC) -c -o \$@ \$<\n";
    # One compiler run for each folder: starting processes is what a client of this kind is slow at.
    print $k "%/part.o: all.h\n\tcat \$*/*.c >\$*/part.c\n\t\$(CC) -c -o \$@ \$*/part.c\n";
    open my $e, ">", "/tmp/tree/expected" or die;
    print $e "$sum\n";
'
ln -s part00/f000.c /tmp/tree/link.c
ln /tmp/tree/all.h /tmp/tree/hard.h
tar -C /tmp -cf /tmp/tree.tar tree
"##;

const USE_SOURCE_TREE: &str = r#"
mkdir -p $D; cd $D
tar -xf /tmp/tree.tar
diff -r /tmp/tree tree
[ $(stat -c %h tree/all.h) = 2 ]
(cd /tmp/tree; find . | sort) >/tmp/names; (cd tree; find . | sort) | diff /tmp/names -
make -s -C tree -j2
tree/program | diff tree/expected -
[ $(find tree -name part.o | wc -l) = 8 ]
make -s -C tree -j2 -q
tar -cf /dev/null tree
rm -rf tree
[ ! -e tree ]
cd /; rm -rf $D
[ ! -e $D ]
"#;

/// Bytes that [`write_by_four`] writes.
pub const FOUR_FILES_BYTES: u64 = 128 << 20;

/// Four processes write 32 MiB each at the same time, with sync, and store the checksums in /tmp/four.
#[must_use]
pub fn write_by_four(dir: &str) -> String {
    format!(
        r#"D={dir}; mkdir -p $D /tmp/four
block() {{ # N: 32 MiB that are different for each N, each 1 MiB block of them different
    perl -e 'my ($n, $x, $block) = (shift, 1, "");
        $block .= pack "V", $x = ($x * 1664525 + 1013904223) & 0xffffffff for 3 .. 1 << 18;
        print pack("VV", $n, $_), $block for 1 .. 32' $1
}}
write() {{
    block $1 | tee >(sha256sum >/tmp/four/$1) | dd of=$D/file$1 bs=1M iflag=fullblock conv=fsync status=none
}}
pids=; for n in 1 2 3 4; do write $n & pids="$pids $!"; done
for pid in $pids; do wait $pid; done
sync; [ $(stat -c %s $D/file? | awk '{{s += $1}} END {{print s}}') = {FOUR_FILES_BYTES} ]
"#
    )
}

/// Four processes read the files of [`write_by_four`] at the same time, from the servers, and compare the
/// checksums.
#[must_use]
pub fn read_by_four(dir: &str) -> String {
    format!(
        r#"D={dir}; echo 3 >/proc/sys/vm/drop_caches
check() {{
    sum=$(dd if=$D/file$1 bs=1M status=none | sha256sum)
    [ "$sum" = "$(cat /tmp/four/$1)" ] || {{ echo "file$1: read $sum, wrote $(cat /tmp/four/$1)"; exit 1; }}
}}
pids=; for n in 1 2 3 4; do check $n & pids="$pids $!"; done
for pid in $pids; do wait $pid; done
"#
    )
}

/// Common commands, run here and in memory: their output must be the same. The output of `df` and `du`
/// depends on the file system, and is only checked for plausibility.
#[must_use]
pub fn same_as_local(dir: &str) -> String {
    format!("D={dir}\n{SAME_AS_LOCAL}")
}

const SAME_AS_LOCAL: &str = r#"
cat >/tmp/commands.sh <<'COMMANDS'
exec 2>&1
umask 022
say() { echo "== $*"; }
show() { # everything but the sizes of folders
    find . -printf '%P %y %m %U %G %n %l ' \( -type d -printf '\n' -o -printf '%s %TY-%Tm-%Td %TH:%TM:%.2TS\n' \) | sort
}
sum() { sha256sum "$@"; }
say make; mkdir -p a/b/c a/d; echo one >a/one; echo two >a/b/two; : >a/empty
perl -e 'print pack "V", $_ * 2654435761 for 1 .. 300_000' >a/large; sum a/large; wc -c a/large
find a -exec touch -h -d '2020-02-02 02:02:02.020000000 UTC' {} +; show

say modes; chmod 640 a/one; chmod 4755 a/large; chmod 1777 a/d; chmod u-w a/empty; chown 1000:2000 a/one
chown :3000 a/d; chown -h 5:6 a/b; chmod g+s a/b; show
touch -d '1999-12-31 23:59:59.123456789 UTC' a/one; stat -c '%n %Y %y' a/one
touch -a -d @1000000000 a/one; stat -c '%n %X %Y' a/one; touch -r a/one a/empty; stat -c '%n %X %Y' a/empty

say links; ln a/one a/hard; ln -s ../one a/b/soft; ln -s /nowhere/at/all a/dangling; ln -s . a/loop
touch -h -d @1100000000 a/b/soft a/dangling a/loop
show; readlink a/b/soft a/dangling; cat a/b/soft; cat a/dangling; echo more >>a/hard; cat a/one; touch -d @1200000000 a/hard; [ a/one -ef a/hard ] && echo one file

say copy; cp -a a copy; (cd copy; show) >/tmp/copied; (cd a; show) | diff - /tmp/copied && echo all the same
diff -r --no-dereference a copy && echo same content
cp a/large copied-large; cmp a/large copied-large; cp --sparse=always a/large sparse-large; cmp a/large sparse-large

say move; mv a/b copy/moved; mv copy/moved/two copy/three; mv -T copy/three a/one; cat a/one; cat a/hard
mv copy copied; mv -n a/one a/hard; ls a; mv a/missing a/x; mkdir full; touch full/x; mv -T full a/d && ls a/d
mkdir over; mv -T over a/d; rmdir a/d; ls -A a/d; mv a a/d; mv copied/large copied/d; ls -A copied

say ranges; cp a/large r; truncate -s 100000 r; sum r; truncate -s 400001 r; sum r
printf middle | dd of=r bs=1 seek=200000 conv=notrunc status=none; sum r; printf end >>r; sum r; wc -c r
dd if=r bs=4099 skip=40 count=9 status=none | sum; dd if=/dev/zero of=hole bs=1 count=1 seek=5000000 status=none; sum hole
truncate -s 0 r; wc -c r; printf again >r; cat r; dd if=a/large of=odd bs=7919 status=none; cmp a/large odd
(exec 5<>odd; rm odd; head -c 8 <&5 | sum; echo tail >&5; ls odd); ls odd

say errors; mkdir a; rmdir a; rm a; ls missing; ln a/large a/empty; rmdir full missing; cat a; mkdir no/such/folder; ln -s x r; rm r/x; cd r
touch $(printf %0256d 0); touch $(printf %0255d 0); ls | grep -c 0000; rm 000*; touch 'with space' $'new\nline' 'ümläut' '*'; ls -b; rm 'with space' $'new\nline' 'ümläut' '*'

say find; find a -type f -size +100k; find a -type l | sort; find a -perm -4000; find a -newermt 2001-01-01 ! -newermt 2019-01-01 | sort
find . -links 2 -type f | sort; find . -empty | sort; find a -user 1000; ls -ln --time-style=+%s a | grep '^-'

say tar; tar --sort=name --mtime=@0 --format=gnu -cf /tmp/$$.tar a; sum </tmp/$$.tar; mkdir t; tar -C t -xpf /tmp/$$.tar; rm /tmp/$$.tar
(cd t; show | sed 's/ ....-..-.. ..:..:...*//'); diff -r --no-dereference a t/a && echo same content
du -b --apparent-size a/large hole | cut -f1

say as another user; mkdir -m 777 open; mkdir -m 700 closed; echo secret >closed/x; chmod 600 a/hard
setpriv --reuid 1234 --regid 1234 --clear-groups bash -c 'id -u; touch open/mine; stat -c "%n %u %g %a" open/mine; cat closed/x; cat a/hard; touch no; rm -f a/hard; chmod 777 a; chown 1 open/mine; chmod 640 open/mine; stat -c %a open/mine'

say fifo; mkfifo pipe; echo through >pipe & cat pipe; wait; stat -c %F pipe
say remove; chmod -R u+w .; rm -rf ./*; ls -A
COMMANDS
export TZ=UTC
rm -rf /tmp/local; mkdir -p $D /tmp/local
(cd /tmp/local; bash /tmp/commands.sh) >/tmp/local.out
(cd $D; bash /tmp/commands.sh) >/tmp/remote.out
# tmpfs and NFS may list in different orders; the commands sort what depends on it.
diff -u --label local --label remote /tmp/local.out /tmp/remote.out

echo df and du
read -r total used free < <(df -B1 --output=size,used,avail $D | tail -1)
[ $total -gt 0 ] && [ $used -le $total ] && [ $free -le $total ] && [ $free -gt 0 ]
df -i $D >/dev/null
head -c 8388608 /dev/urandom >$D/eight; sync $D/eight
kib=$(du -k $D/eight | cut -f1); [ $kib -ge 8192 ] && [ $kib -le 9216 ] || { echo "du says $kib KiB for 8 MiB"; exit 1; }
truncate -s 1T $D/eight; kib=$(du -k $D/eight | cut -f1); [ $kib -le 9216 ] || { echo "du says $kib KiB for 8 MiB and a hole"; exit 1; }
[ $(stat -c %s $D/eight) = 1099511627776 ]
rm -r $D
"#;

/// Increments the number in `file` `times` times, under a lock. Several clients together must lose no
/// increment.
#[must_use]
pub fn count_under_lock(file: &str, times: u32) -> String {
    format!(
        r#"for i in $(seq {times}); do
    flock {file}.lock bash -c 'n=$(cat {file}); echo $((n + 1)) >{file}'
done"#
    )
}

/// Takes a fcntl lock by perl: `lock FILE read|write|none START LENGTH wait|try`, and holds it for SECONDS.
/// Prints `locked` or `refused`, with the time in seconds since 1970.
#[must_use]
pub fn fcntl_lock(file: &str, kind: &str, start: u64, length: u64, wait: bool, hold_seconds: f64) -> String {
    format!(
        r#"perl -e '
use Fcntl; $| = 1;
my ($file, $kind, $start, $length, $wait, $hold) = @ARGV;
open my $f, "+<", $file or die "open $file: $!";
# struct flock of x86-64: type, whence, start, length, pid
my $lock = pack "s s x4 q q l x4", {{read => F_RDLCK, write => F_WRLCK}}->{{$kind}}, 0, $start, $length, 0;
my $ok = fcntl $f, $wait ? F_SETLKW : F_SETLK, $lock;
die "fcntl: $!" if !$ok && !$!{{EAGAIN}} && !$!{{EACCES}};
print $ok ? "locked" : "refused", " ", time, "\n";
select undef, undef, undef, $hold;
' {file} {kind} {start} {length} {} {hold_seconds}"#,
        u8::from(wait)
    )
}

/// Appends `count` records of `record_bytes` times one letter to `file`, each under an exclusive lock of the
/// whole file.
#[must_use]
pub fn append_records(file: &str, letter: char, record_bytes: usize, count: usize) -> String {
    format!(
        r#"perl -e '
use Fcntl qw(:DEFAULT :flock);
my $record = "{letter}" x {record_bytes};
open my $f, "+>>", "{file}" or die "open: $!";
for (1 .. {count}) {{
    flock $f, LOCK_EX or die "lock: $!";
    syswrite($f, $record) == {record_bytes} or die "append: $!";
    flock $f, LOCK_UN or die "unlock: $!";
}}'"#
    )
}

/// Counts the records of [`append_records`] in `file`: a line `COUNT LETTER` for each letter, and one more
/// for a torn record.
#[must_use]
pub fn count_records(file: &str, record_bytes: usize) -> String {
    format!("fold -w {record_bytes} {file} | tr -s a-z | sort | uniq -c | sed 's/^ *//'")
}

/// Creates `count` empty files `stays-00000`, ...
#[must_use]
pub fn make_entries(dir: &str, count: u32) -> String {
    format!(
        r#"mkdir -p {dir}; cd {dir}
perl -e 'for my $i (0 .. {count} - 1) {{ open my $f, ">", sprintf "stays-%05d", $i or die "create $i: $!" }}'"#
    )
}

/// Adds and removes entries in `dir` until /tmp/stop exists; prints the number of added ones. Creates
/// /tmp/churning at the first removal.
#[must_use]
pub fn churn_entries(dir: &str) -> String {
    format!(
        r#"cd {dir}
perl -e 'my $i = 0;
until (-e "/tmp/stop") {{
    my $name = sprintf "comes-and-goes-%06d", $i++;
    open my $f, ">", $name or die "create $name: $!";
    next if $i <= 200;
    if ($i == 201) {{ open my $sign, ">", "/tmp/churning" or die "sign: $!" }}
    $name = sprintf "comes-and-goes-%06d", $i - 201;
    unlink $name or die "remove $name: $!";
}}
print "$i\n"'"#
    )
}

/// Lists `dir` `rounds` times while it changes: each listing must have every `stays-` entry once, and no
/// entry twice.
#[must_use]
pub fn list_entries(dir: &str, count: u32, rounds: u32) -> String {
    format!(
        r#"for round in $(seq {rounds}); do
    echo 2 >/proc/sys/vm/drop_caches
    ls -U {dir} | sort >/tmp/listing
    uniq -d /tmp/listing >/tmp/twice
    [ ! -s /tmp/twice ] || {{ echo "round $round: listed twice:"; head /tmp/twice; exit 1; }}
    stay=$(grep -c '^stays-' /tmp/listing)
    [ $stay = {count} ] || {{ echo "round $round: $stay of {count} entries listed"; exit 1; }}
done"#
    )
}

/// Process `n` of a create storm: makes files (create, write, fsync, close, rename), removes every fifth, and
/// notes each in /tmp/acked.N after its acknowledgement; until /tmp/stop exists.
#[must_use]
pub fn create_storm(dir: &str, n: u32, round: u32) -> String {
    format!(
        r#"mkdir -p {dir}
perl -e 'use IO::Handle;
my ($dir, $n, $round) = @ARGV;
open my $acked, ">>", "/tmp/acked.$n" or die; $acked->autoflush(1);
for (my $i = 0; !-e "/tmp/stop"; $i++) {{
    select undef, undef, undef, 0.02;                 # leaves the machine room for what else is tried
    my $name = "$dir/r$round-p$n-$i";
    open my $f, ">", "$name.new" or die "create $name.new: $!";
    print $f "$name\n" x ($i % 100 + 1) or die "write $name.new: $!";
    $f->flush or die "write $name.new: $!";
    $f->sync or die "fsync $name.new: $!";
    close $f or die "close $name.new: $!";
    rename "$name.new", $name or die "rename $name: $!";
    if ($i % 5 == 4) {{
        # An operation that was carried out before its server died must not fail when it is sent again.
        unlink $name or die "unlink $name: $!";
        print $acked "gone $name\n";
    }} else {{
        print $acked "here $name ", $i % 100 + 1, "\n";
    }}
}}' {dir} {n} {round}"#
    )
}

/// Compares the storms' notes with the files.
#[must_use]
pub fn check_storm() -> String {
    r#"echo 3 >/proc/sys/vm/drop_caches
cat /tmp/acked.* | perl -ne '
my ($state, $name, $lines) = split;
if ($state eq "gone") { -e $name and print "came back: $name\n"; next }
open my $f, "<", $name or do { print "lost: $name: $!\n"; next };
local $/; my $text = <$f>;
$text eq "$name\n" x $lines or print "altered: $name: ", length $text, " bytes\n";
' >/tmp/wrong
[ ! -s /tmp/wrong ] || { echo "$(wc -l </tmp/wrong) of $(cat /tmp/acked.* | wc -l) are wrong:"; head -n 20 /tmp/wrong; exit 1; }
cat /tmp/acked.* | wc -l"#
        .to_owned()
}

/// Process `n` of a write storm: writes a file repeatedly, in blocks of odd size, at random offsets by seed,
/// with an fsync after every few, and notes synced blocks in /tmp/synced.N; until /tmp/stop exists.
#[must_use]
pub fn write_storm(dir: &str, n: u32, seed: u64) -> String {
    format!(
        r#"mkdir -p {dir}
perl -e 'use IO::Handle; use Fcntl;
my ($dir, $n, $seed) = @ARGV;
my ($block, $blocks) = (300_007, 100);            # crosses stripe units and pages; 29 MiB a file
srand $seed * 4 + $n;
sysopen my $f, "$dir/w$n", O_RDWR | O_CREAT or die "open w$n: $!";
open my $synced, ">>", "/tmp/synced.$n" or die; $synced->autoflush(1);
my @written;
for (my $version = 1; !-e "/tmp/stop"; $version++) {{
    select undef, undef, undef, 0.02;
    my $at = int rand $blocks;
    my $bytes = substr "w$n block $at seed $seed version $version\n" x 12_000, 0, $block;
    sysseek $f, $at * $block, 0;
    (syswrite($f, $bytes) // -1) == $block or die "write w$n: $!";
    push @written, "$at $seed $version\n";
    next if @written < 8;
    $f->sync or die "fsync w$n: $!";
    print $synced @written; @written = ();
}}
$f->sync or die "fsync w$n: $!";
print $synced @written;
close $f or die "close w$n: $!"' {dir} {n} {seed}"#
    )
}

/// Reads the files of the [`write_storm`]s `writers` (`1 2`) in `dir` from the servers: each block must have
/// its last content.
#[must_use]
pub fn check_writes(dir: &str, writers: &str) -> String {
    format!(
        r#"echo 3 >/proc/sys/vm/drop_caches
for n in {writers}; do
    perl -e '
    my ($dir, $n) = @ARGV;
    my $block = 300_007;
    my (%last, $wrong);
    open my $synced, "<", "/tmp/synced.$n" or die;
    while (<$synced>) {{ my ($at, $seed, $version) = split; $last{{$at}} = "seed $seed version $version" }}
    open my $f, "<", "$dir/w$n" or die "open w$n: $!";
    for my $at (sort {{ $a <=> $b }} keys %last) {{
        seek $f, $at * $block, 0;
        defined read $f, my $bytes, $block or die "read w$n at $at: $!";
        next if $bytes eq substr "w$n block $at $last{{$at}}\n" x 12_000, 0, $block;
        my ($first) = $bytes =~ /(w.*)/;
        print "w$n block $at: wrote $last{{$at}}, read ", length $bytes, " bytes that begin: $first\n";
        $wrong++;
    }}
    exit 1 if $wrong; ' {dir} $n
done; cat /tmp/synced.* | wc -l"#
    )
}

/// `processes` processes make, stat, list or remove `count` empty files together in one directory, with empty
/// client caches; prints the number of operations and the seconds.
///
/// `operation`: `make`, `stat`, `list` (each process lists all) or `remove`.
#[must_use]
pub fn in_one_directory(dir: &str, operation: &str, processes: u32, count: u32) -> String {
    format!(
        r#"mkdir -p {dir}; sync; echo 3 >/proc/sys/vm/drop_caches
perl -MTime::HiRes=time -MFcntl -e '
my ($dir, $operation, $processes, $count) = @ARGV;
sub list {{
    my @seen;
    opendir my $d, $dir or die "open $dir: $!";
    while (defined(my $name = readdir $d)) {{
        $seen[$1]++ if $name =~ /^a-file-([0-9]{{8}})$/;
    }}
    @seen == $count or die "entries up to " . @seen . " listed of $count";
    ($seen[$_] // 0) == 1 or die "entry $_ listed " . ($seen[$_] // 0) . " times" for 0 .. $count - 1;
}}
sub work {{
    my ($k) = @_;
    return list() if $operation eq "list";
    for (my $i = $k; $i < $count; $i += $processes) {{
        my $name = sprintf "$dir/a-file-%08d", $i;
        if ($operation eq "make") {{
            sysopen my $f, $name, O_CREAT | O_EXCL | O_WRONLY or die "make $name: $!";
        }} elsif ($operation eq "stat") {{
            lstat $name or die "stat $name: $!";
        }} else {{
            unlink $name or die "remove $name: $!";
        }}
    }}
}}
my $start = time;
for my $k (0 .. $processes - 1) {{
    my $child = fork // die "fork: $!";
    if (!$child) {{ work($k); exit 0 }}
}}
while (wait > 0) {{ die "a process failed" if $? }}
printf "%d %f\n", $count * ($operation eq "list" ? $processes : 1), time - $start;
' {dir} {operation} {processes} {count}"#
    )
}

/// Appends `count` records of `bytes` each, with fdatasync after each, and then keeps the file open without
/// end.
pub fn append_with_fdatasync(file: &str, count: u32, bytes: u32) -> String {
    python(&format!(
        r#"
import os, time
f = os.open("{file}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for _ in range({count}):
    assert os.write(f, b"x" * {bytes}) == {bytes}
    os.fdatasync(f)
open("/tmp/written", "w").close()
while True:
    time.sleep(60)
"#
    ))
}

/// Opens a file to append, runs `script`, in which `write()` appends a record of `bytes`, and keeps what is
/// open without end.
pub fn append_until(file: &str, bytes: u64, script: &str) -> String {
    python(&format!(
        r#"
import os, time
f = os.open("{file}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def write():
    assert os.write(f, b"x" * {bytes}) == {bytes}
{script}
open("/tmp/there", "w").close()
while True:
    time.sleep(60)
"#
    ))
}

/// Checks that a file has at least `least` bytes, all of them those of [`append_until`]. Prints its size.
pub fn has_only(file: &str, least: u64) -> String {
    python(&format!(
        r#"
import os
size = os.stat("{file}").st_size
data = open("{file}", "rb").read()
assert size >= {least} and len(data) == size, (size, len(data))
# The part of a write that was not acknowledged, in the end, may be there in part.
assert data[:{least}] == b"x" * {least} and not data[{least}:].strip(b"x\0")
print(size)
"#
    ))
}

/// One process appends with fdatasync and reports its progress; another one reads the length of the file by
/// all system calls.
pub fn append_and_look(file: &str, count: u32) -> String {
    python(&format!(
        r#"
import mmap, os, struct
shared = mmap.mmap(-1, 8)
acknowledged = lambda: struct.unpack("Q", shared[:8])[0]
child = os.fork()
f = os.open("{file}", os.O_RDWR | os.O_CREAT | os.O_APPEND)
if child == 0:
    end = 0
    for n in range({count}):
        data = bytes([65 + n % 26]) * (70000 if n % 3 == 0 else 4096)
        assert os.write(f, data) == len(data)
        os.fdatasync(f)
        end += len(data)
        assert os.fstat(f).st_size >= end, "its own writes"
        shared[:8] = struct.pack("Q", end)
    os._exit(0)
looks = 0
while True:
    done, status = os.waitpid(child, os.WNOHANG)
    for look in (lambda: os.fstat(f).st_size, lambda: os.stat("{file}").st_size, lambda: os.lseek(f, 0, os.SEEK_END)):
        least = acknowledged()
        found = look()
        assert found >= least, "%d bytes of %d" % (found, least)
        looks += 1
    least = acknowledged()
    if least:
        assert os.pread(f, 1, least - 1) >= b"A", "the last byte that was acknowledged"
    if done:
        assert status == 0
        break
print(looks, "looks at", acknowledged(), "bytes")
"#
    ))
}

/// Two processes insert rows into one SQLite database in WAL mode, each row in a transaction of its own.
pub fn sqlite_by_two(database: &str, rows: u32) -> String {
    python(&format!(
        r#"
import os, sqlite3
connect = lambda: sqlite3.connect("{database}", timeout=60, isolation_level=None)
db = connect()
assert db.execute("pragma journal_mode=wal").fetchone()[0] == "wal"
db.execute("create table t (writer int, n int, filling blob)")
db.close()
children = []
for writer in (1, 2):
    child = os.fork()
    if child == 0:
        db = connect()
        db.execute("pragma synchronous=full")
        for n in range({rows}):
            db.execute("begin immediate")
            db.execute("insert into t values (?, ?, ?)", (writer, n, os.urandom(3000)))
            db.execute("commit")
        db.close()
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0, "a writer failed"
db = connect()
assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
for writer in (1, 2):
    found = [n for (n,) in db.execute("select n from t where writer = ? order by n", (writer,))]
    missing = sorted(set(range({rows})) - set(found))
    assert found == list(range({rows})), "writer %d: rows %s are not there" % (writer, missing[:20])
print("all", 2 * {rows}, "rows")
"#
    ))
}

pub(crate) fn python(program: &str) -> String {
    format!("cat >/tmp/program.py <<'END'\n{program}END\npython3 /tmp/program.py")
}
