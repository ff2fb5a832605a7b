//! Scripts for a PostgreSQL server with its data directory on Heorot, and for its client on another machine.
//! `scripts/setup-postgres.sh` installs both.

use std::net::Ipv4Addr;

/// Debian's folder of the server's programs; the shell selects the newest version.
const BIN: &str = "$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)";
const AS_POSTGRES: &str = "setpriv --reuid=postgres --regid=postgres --clear-groups";

/// Makes a data directory with checksums of pages, and with small WAL segments so that many files are made
/// and renamed.
#[must_use]
pub fn init(dir: &str) -> String {
    format!(
        r#"install -d -m 700 -o postgres -g postgres {dir}
{AS_POSTGRES} {BIN}/initdb -D {dir} --auth=trust --data-checksums --wal-segsize=1 --encoding=UTF8 --locale=C
cat >>{dir}/postgresql.conf <<'END'
listen_addresses = '*'
unix_socket_directories = '/tmp'
dynamic_shared_memory_type = sysv
checkpoint_timeout = 30s
max_wal_size = 8MB
min_wal_size = 2MB
END
echo 'host all all 10.77.0.0/16 trust' >>{dir}/pg_hba.conf"#
    )
}

/// Runs the server until a kill. First removes `postmaster.pid` of a dead machine, as an operator does after
/// fencing: process ids of two machines are unrelated.
#[must_use]
pub fn serve(dir: &str) -> String {
    format!("rm -f {dir}/postmaster.pid; exec {AS_POSTGRES} {BIN}/postgres -D {dir} >/tmp/postgres.log 2>&1")
}

/// Waits until the server on this machine accepts connections, perhaps after a recovery.
#[must_use]
pub fn wait_ready() -> String {
    format!(
        "for _ in $(seq 600); do {BIN}/pg_isready -q -h /tmp && exit 0; sleep 0.2; done; \
         cat /tmp/postgres.log; exit 1"
    )
}

/// Stops the server on this machine in order.
#[must_use]
pub fn stop(dir: &str) -> String {
    format!("{AS_POSTGRES} {BIN}/pg_ctl -D {dir} -w -m fast stop")
}

/// Makes the table that [`insert`] fills.
#[must_use]
pub fn make_table() -> String {
    sql(
        "create extension amcheck; create table t (writer int, n int, filling text, primary key (writer, n));",
    )
}

/// `writers` connections to the server at `address` insert rows from number `from`, each in a transaction of
/// its own, without end. Each acknowledged row is a line `WRITER N` of /tmp/acknowledged.
#[must_use]
pub fn insert(address: Ipv4Addr, writers: u32, from: u32) -> String {
    super::scripts::python(&format!(
        r#"
import os, subprocess
acknowledged = os.open("/tmp/acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def write(writer):
    psql = subprocess.Popen(
        ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", "{address}", "-U", "postgres"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    n = {from}
    while True:
        filling = "repeat('x', %d)" % (n * 37 % 3000)
        psql.stdin.write("insert into t values (%d, %d, %s) returning n;\n" % (writer, n, filling))
        psql.stdin.flush()
        line = psql.stdout.readline()
        if line != "%d\n" % n:
            os._exit(1)
        os.write(acknowledged, b"%d %d\n" % (writer, n))
        n += 1
for writer in range({writers}):
    if os.fork() == 0:
        write(writer)
while True:
    os.wait()
"#
    ))
}

/// Number of acknowledged rows.
#[must_use]
pub fn acknowledged() -> &'static str {
    "wc -l </tmp/acknowledged"
}

/// Waits until `count` rows are acknowledged.
#[must_use]
pub fn wait_acknowledged(count: u32) -> String {
    format!("until [ $(cat /tmp/acknowledged | wc -l) -ge {count} ]; do sleep 0.05; done")
}

/// Checks that each row of /tmp/acknowledged is in the table of the server at `address`, and that index and
/// table agree. Prints the number of rows.
#[must_use]
pub fn check(address: Ipv4Addr) -> String {
    let psql = format!("psql -qAtX -F ' ' -v ON_ERROR_STOP=1 -h {address} -U postgres");
    format!(
        r#"{psql} -c 'select writer, n from t' | sort >/tmp/found
sort /tmp/acknowledged >/tmp/expected
comm -13 /tmp/found /tmp/expected >/tmp/missing
[ ! -s /tmp/missing ] || {{ echo "acknowledged and not there:"; head /tmp/missing; exit 1; }}
{psql} -c "select bt_index_check('t_pkey', true)" -c 'select sum(length(filling)) from t' >/dev/null
wc -l </tmp/found"#
    )
}

/// Checks the checksum of each page of a stopped server's database.
#[must_use]
pub fn check_pages(dir: &str) -> String {
    format!("{AS_POSTGRES} {BIN}/pg_checksums --check -D {dir}")
}

fn sql(text: &str) -> String {
    format!("psql -qAtX -v ON_ERROR_STOP=1 -h /tmp -U postgres <<'END'\n{text}\nEND")
}
