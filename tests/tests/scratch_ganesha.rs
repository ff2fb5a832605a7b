//! Scratch, not to be committed: the scripts against nfs-ganesha.
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::{Client, Lab, scripts};

struct Ganesha(Child);
impl Drop for Ganesha {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
fn ganesha(lab: &Lab) -> Ganesha {
    let dir = lab.folder().join("export");
    std::fs::create_dir_all(&dir).unwrap();
    let conf = lab.folder().join("g.conf");
    std::fs::write(&conf, format!(r#"
NFS_CORE_PARAM {{ Protocols = 3,4; NFS_Port = 2049; MNT_Port = 2050; Bind_addr = {a}; Enable_NLM = false; Enable_RQUOTA = false; fsid_device = true; NSM_Use_Caller_Name=false; }}
NFSv4 {{ Minor_Versions = 1,2; Graceless = true; RecoveryBackend = fs; RecoveryRoot = {l}; }}
EXPORT {{ Export_Id = 1; Path = {d}; Pseudo = /x; Access_Type = RW; Squash = No_Root_Squash; SecType = sys; Protocols = 3,4; Transports = TCP; FSAL {{ Name = VFS; }} }}
LOG {{ Default_log_level = WARN; }}
"#, a = lab.address(), d = dir.display(), l = lab.folder().display())).unwrap();
    let g = Ganesha(
        Command::new("ganesha.nfsd")
            .args(["-F", "-f"])
            .arg(&conf)
            .arg("-L")
            .arg("/tmp/ganesha-scratch.log")
            .arg("-p")
            .arg(lab.folder().join("g.pid"))
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let t = Instant::now();
    while std::net::TcpStream::connect((lab.address(), 2049)).is_err() {
        assert!(t.elapsed() < Duration::from_secs(40));
        std::thread::sleep(Duration::from_millis(200));
    }
    g
}
fn step(c: &Client, what: &str, s: &str) {
    let t = Instant::now();
    let o = c.run_within(Duration::from_secs(400), s);
    println!("{what}: {:?} {}", t.elapsed(), o.trim());
}

#[test]
fn everyday() {
    let lab = Lab::open();
    let _g = ganesha(&lab);
    let c = lab.client("ash");
    let v = "vers=4.2";
    let src = format!("{}:/x", lab.address());
    step(
        &c,
        "mount",
        &format!("mkdir -p /mnt/h; mount -t nfs -o {v} {src} /mnt/h; grep /mnt/h /proc/mounts"),
    );
    let s = scripts::same_as_local("/mnt/h/same");
    let i = s.find("echo df and du").unwrap();
    step(&c, "df du", &format!("D=/mnt/h/same; mkdir -p $D; {}", &s[i..]));
    let s = s
        .replace("find . -printf '%P %y %m", "find . ! -type l -printf '%P %y %m")
        .replace("-newermt 2001", "! -type l -newermt 2001");
    let o = c.spawn(&s).wait(Duration::from_secs(200));
    println!("same but for symlink times: {o}");
}
