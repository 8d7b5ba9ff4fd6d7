use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use weft_env::Env;

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_is_cut_off() {
    let (ours, _theirs) = tokio::io::duplex(1000);
    let began = Instant::now();
    let error = WriteTimeout::new(ours, &Env::system().clock).write_all(&[0; 2000]).await.unwrap_err();
    assert_eq!((error.kind(), began.elapsed()), (io::ErrorKind::TimedOut, WAIT));
}

#[tokio::test(start_paused = true)]
async fn who_takes_a_drip_is_cut_off_too() {
    let (ours, mut theirs) = tokio::io::duplex(1000);
    tokio::spawn(async move {
        let mut byte = [0];
        while theirs.read_exact(&mut byte).await.is_ok() {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    });
    let error = WriteTimeout::new(ours, &Env::system().clock).write_all(&[0; 2000]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn who_is_slow_but_steady_gets_all_of_it_and_may_ask_again() {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let reader = tokio::spawn(async move {
        let mut taken = 0;
        let mut buffer = vec![0; 64 << 10];
        for _ in 0..2 {
            theirs.write_all(b"ask").await.unwrap();
            taken = 0;
            while taken < 8 << 20 {
                taken += theirs.read(&mut buffer).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1500)).await;
            }
        }
        taken
    });
    let mut stream = WriteTimeout::new(ours, &Env::system().clock);
    for _ in 0..2 {
        stream.read_exact(&mut [0; 3]).await.unwrap();
        stream.write_all(&vec![0; 8 << 20]).await.unwrap();
    }
    assert_eq!(reader.await.unwrap(), 8 << 20);
}
