use super::*;
use crate::format::tests::{HEADER_EVENT, HEADER_PAGE};
use crate::page::tests::page;

/// Hands out one page a read, then says that there is none at present; more can be put in later.
#[derive(Debug, Default)]
pub(crate) struct Pages(pub Vec<Vec<u8>>);

impl Read for Pages {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let page = self.0.remove(0);
        let length = page.len().min(buffer.len());
        buffer[..length].copy_from_slice(&page[..length]);
        Ok(length)
    }
}

pub(crate) fn format() -> PageFormat {
    PageFormat::parse(HEADER_PAGE, HEADER_EVENT).unwrap()
}

/// The same with 64 KiB a page, as that kernel prints it once `buffer_subbuf_size_kb` is 64.
fn large_format() -> PageFormat {
    PageFormat::parse(&HEADER_PAGE.replace("4080", "65520"), HEADER_EVENT).unwrap()
}

/// A page of events of four bytes, each its time.
pub(crate) fn page_of(times: &[u64]) -> Vec<u8> {
    let (mut body, mut before) = (Vec::new(), times[0]);
    for &time in times {
        body.extend((1 | ((time - before) as u32) << 5).to_ne_bytes());
        body.extend((time as u32).to_ne_bytes());
        before = time;
    }
    page(times[0], 0, &body, &[])
}

fn times(buffer: &mut CpuBuffer<Pages>, format: &PageFormat, now_ns: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some(head_ns) = buffer.head_ns(format, now_ns).unwrap() {
        let (time_ns, record) = buffer.take().unwrap();
        assert_eq!(time_ns, head_ns);
        assert_eq!(record, (time_ns as u32).to_ne_bytes());
        seen.push(time_ns);
    }
    seen
}

#[test]
fn pages_follow_one_another_and_more_may_come() {
    let pages = Pages(vec![page_of(&[1, 2, 3]), page_of(&[7]), page_of(&[8, 9])]);
    let mut buffer = CpuBuffer::new(pages, &format());
    assert_eq!(times(&mut buffer, &format(), 10), [1, 2, 3, 7, 8, 9]);
    assert_eq!(buffer.head_ns(&format(), 10).unwrap(), None);
    buffer.pipe.0.push(page_of(&[11]));
    assert_eq!(times(&mut buffer, &format(), 10), [11]);
    assert_eq!((buffer.last_ns, buffer.damaged_pages), (11, 0));
}

#[test]
fn a_large_page_is_read_as_a_whole() {
    let format = large_format();
    assert_eq!(format.page_bytes, 65536);
    let all: Vec<u64> = (0..8000).collect(); // eight bytes each: more than fifteen small pages hold
    let mut buffer = CpuBuffer::new(Pages(vec![page_of(&all), page_of(&[8000])]), &format);
    assert_eq!(times(&mut buffer, &format, 10).len(), 8001);
    assert_eq!(buffer.damaged_pages, 0);
}

#[test]
fn a_torn_page_costs_its_rest_and_no_more() {
    let mut torn = page_of(&[1, 2, 3]);
    torn.truncate(16 + 10); // its commit word promises more than came
    let mut wrong_size = page_of(&[4, 5]);
    wrong_size[8..12].copy_from_slice(&(1_u32 << 20).to_ne_bytes());
    let mut wrong_length = page_of(&[6, 7]);
    wrong_length[16 + 8..16 + 12].copy_from_slice(&28_u32.to_ne_bytes()); // 112 bytes, of which 4 are there
    let pages = vec![torn, wrong_size, wrong_length, page_of(&[8])];
    let mut buffer = CpuBuffer::new(Pages(pages), &format());
    assert_eq!(times(&mut buffer, &format(), 10), [6, 8]);
    assert_eq!(buffer.damaged_pages, 3);
}

#[test]
fn a_time_in_the_future_does_not_hold_up_what_follows() {
    let pages = vec![page_of(&[5]), page_of(&[FUTURE_NS * 2]), page_of(&[6])];
    let mut buffer = CpuBuffer::new(Pages(pages), &format());
    assert_eq!(times(&mut buffer, &format(), 10), [5, 6]);
    assert_eq!(buffer.damaged_pages, 1);
}

#[test]
fn any_pages_are_survived() {
    let mut state = 0x1234_5678_9abc_def1_u64; // xorshift, fixed seed
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let format = format(); // parsed once: it is asked for at every event
    let whole = page_of(&(0..500).collect::<Vec<_>>());
    let mut read = 0;
    for _ in 0..3_000 {
        let mut pages = Vec::new();
        for _ in 0..3 {
            let mut damaged = whole.clone();
            for _ in 0..next() % 5 {
                let at = next() as usize % damaged.len();
                damaged[at] = next() as u8;
            }
            damaged.truncate(next() as usize % (2 * damaged.len()));
            pages.push(damaged);
        }
        let mut buffer = CpuBuffer::new(Pages(pages), &format);
        while buffer.head_ns(&format, 10).unwrap().is_some() {
            read += buffer.take().unwrap().1.len();
        }
    }
    assert!(read > 1_000_000);
}
