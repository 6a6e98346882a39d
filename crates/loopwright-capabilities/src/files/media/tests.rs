#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{Cursor, Write as _};

use flate2::{Compression, Crc, write::ZlibEncoder};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};

use super::*;

/// A picture of noise, which no encoder makes small.
fn picture(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let mut seed = 1_u32;
    let image = RgbImage::from_fn(width, height, |_, _| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, _] = seed.to_be_bytes();
        Rgb([a, b, c])
    });
    let mut bytes = Vec::new();
    DynamicImage::from(image).write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// A white picture with a bit for each pixel, which is small as a file.
fn flat_picture(edge: u32) -> Vec<u8> {
    let mut pixels = ZlibEncoder::new(Vec::new(), Compression::fast());
    let row = vec![0; 1 + edge.div_ceil(8) as usize];
    (0..edge).for_each(|_| pixels.write_all(&row).unwrap());
    let size = [edge.to_be_bytes(), edge.to_be_bytes()].concat();
    let header = [&size[..], &[1, 0, 0, 0, 0]].concat();
    let chunks = [(b"IHDR", header), (b"IDAT", pixels.finish().unwrap()), (b"IEND", Vec::new())];
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (name, data) in chunks {
        let mut sum = Crc::new();
        sum.update(name);
        sum.update(&data);
        png.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        png.extend([&name[..], &data, &sum.sum().to_be_bytes()].concat());
    }
    png
}

/// The type and the bytes of a part.
fn media(part: &Part) -> (String, Vec<u8>) {
    let (Content::Image(media) | Content::Document(media)) = part.content() else {
        panic!("{part:?}")
    };
    let MediaSource::Base64(data) = &media.source else { panic!("{media:?}") };
    (media.mime.to_string(), STANDARD.decode(&**data).unwrap())
}

fn read(limits: MediaLimits, bytes: &[u8]) -> (String, Vec<u8>, String) {
    let read = limits.read("a", bytes.to_vec()).unwrap().unwrap();
    let (mime, bytes) = media(&read.part);
    (mime, bytes, read.caption)
}

#[test]
fn a_picture_that_fits_stays_as_it_is() {
    for (format, mime) in [
        (ImageFormat::Png, "image/png"),
        (ImageFormat::Jpeg, "image/jpeg"),
        (ImageFormat::Gif, "image/gif"),
        (ImageFormat::WebP, "image/webp"),
    ] {
        let bytes = picture(20, 10, format);
        let (told, same, _) = read(MediaLimits::default(), &bytes);
        assert_eq!((told.as_str(), same), (mime, bytes));
    }
}

#[test]
fn a_picture_with_too_many_pixels_is_scaled_down_and_keeps_its_shape() {
    let limits = MediaLimits { image_edge: 100, ..MediaLimits::default() };
    for format in [ImageFormat::Png, ImageFormat::Jpeg, ImageFormat::Gif, ImageFormat::WebP] {
        let (mime, bytes, caption) = read(limits, &picture(400, 200, format));
        let small = image::load_from_memory(&bytes).unwrap();
        assert_eq!((mime.as_str(), small.width(), small.height()), ("image/png", 100, 50));
        assert!(caption.ends_with("scaled down to 100×50"), "{caption}");
    }
}

#[test]
fn a_picture_with_too_many_bytes_becomes_a_jpeg_or_smaller() {
    let bytes = picture(300, 300, ImageFormat::Png);
    for image_bytes in [100_000, 20_000, 3_000] {
        let limits = MediaLimits { image_bytes, ..MediaLimits::default() };
        let (_, small, caption) = read(limits, &bytes);
        assert!(small.len() as u64 <= image_bytes, "{caption}");
        assert!(image::load_from_memory(&small).is_ok(), "{caption}");
    }
}

#[test]
fn what_a_camera_turned_is_upright_when_it_is_scaled() {
    // A JPEG whose EXIF says that it is to be turned by 90 degrees.
    let jpeg = picture(40, 20, ImageFormat::Jpeg);
    let exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    let turned = [&jpeg[..2], b"\xFF\xE1", &length, exif, &jpeg[2..]].concat();
    let limits = MediaLimits { image_edge: 10, ..MediaLimits::default() };
    let small = image::load_from_memory(&read(limits, &turned).1).unwrap();
    assert_eq!((small.width(), small.height()), (5, 10));
}

#[test]
fn a_broken_or_endless_picture_is_refused_with_the_reason() {
    let whole = picture(20, 20, ImageFormat::Png);
    let limits = MediaLimits::default();
    let error = |bytes: &[u8]| limits.read("a.png", bytes.to_vec()).unwrap_err().to_string();
    let truncated = "the PNG image is truncated: its end is missing";
    assert_eq!(error(&whole[..whole.len() / 2]), truncated);
    let broken = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![7; 5_000]].concat();
    assert_eq!(error(&broken), "the PNG image is damaged: its header is invalid");
    // Small as a file, it would take most of a gigabyte: it is never decoded.
    let flat = error(&flat_picture(10_001));
    assert!(flat.starts_with("the image has 10001×10001 pixels, which "), "{flat}");
}

#[test]
fn a_pdf_is_a_document_with_its_name_and_anything_else_is_no_media() {
    let limits = MediaLimits::default();
    let read = limits.read("docs/a.pdf", b"%PDF-1.7 x".to_vec()).unwrap().unwrap();
    let Content::Document(document) = read.part.content() else { panic!("{read:?}") };
    assert_eq!(document.name.as_deref(), Some("a.pdf"));
    assert_eq!(media(&read.part), ("application/pdf".to_owned(), b"%PDF-1.7 x".to_vec()));
    let small = MediaLimits { document_bytes: 5, ..limits };
    let error = small.read("a.pdf", b"%PDF-1.7 x".to_vec()).unwrap_err().to_string();
    assert!(error.contains("extract the pages that matter"), "{error}");
    assert_eq!(limits.read("a.txt", b"text".to_vec()), Ok(None));
    assert_eq!(limits.read("a", Vec::new()), Ok(None));
}
