//! Scaling pictures down.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::{
    DynamicImage, ImageDecoder as _, ImageFormat, ImageReader, Limits, imageops::FilterType,
};

use super::{FittingPicture, MediaLimits, Picture};

/// The most pixels of a picture that is scaled down. It is small as a file if they are all alike.
const MAX_PIXELS: u64 = 100_000_000;

/// The most memory that a picture may take while it is decoded.
const MAX_MEMORY: u64 = 512 << 20;

/// How good a JPEG is that a picture is made into, of 100.
const QUALITY: u8 = 85;

/// Returns a picture as it is if it fits, else one that was scaled down. `None` if it cannot be scaled down, and has too many bytes
/// or pixels as it is.
pub(super) fn fitting(
    mime: &'static str,
    bytes: Vec<u8>,
    known: Option<(u32, u32)>,
    limits: &MediaLimits,
) -> Option<FittingPicture> {
    let has_room = bytes.len() as u64 <= limits.image_bytes;
    let edge = known.or_else(|| pixels(&bytes)).map(|(width, height)| width.max(height));
    // The provider may know the size where it is not known here.
    if has_room && edge.is_none_or(|edge| edge <= limits.image_edge) {
        return Some(FittingPicture { mime, bytes, scaled: None });
    }
    let scaled = scaled(&bytes, limits);
    let passes = has_room && edge.is_none_or(|edge| edge <= Picture::MAX_EDGE);
    scaled.or(passes.then_some(FittingPicture { mime, bytes, scaled: None }))
}

fn reader(bytes: &[u8]) -> Option<ImageReader<Cursor<&[u8]>>> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    Some(reader)
}

fn pixels(bytes: &[u8]) -> Option<(u32, u32)> {
    reader(bytes)?.into_dimensions().ok()
}

fn scaled(bytes: &[u8], limits: &MediaLimits) -> Option<FittingPicture> {
    let mut decoder = reader(bytes)?.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MAX_PIXELS {
        return None;
    }
    // What a camera turned is turned back, as nothing says so in the picture that is made.
    let orientation = decoder.orientation().ok();
    let mut picture = DynamicImage::from_decoder(decoder).ok()?;
    if let Some(orientation) = orientation {
        picture.apply_orientation(orientation);
    }
    let mut edge = limits.image_edge.min(picture.width().max(picture.height()));
    while edge > 0 {
        let small = picture.resize(edge, edge, FilterType::Triangle);
        if let Some((mime, bytes)) = encoded(&small, limits.image_bytes) {
            return Some(FittingPicture {
                mime,
                bytes,
                scaled: Some((small.width(), small.height())),
            });
        }
        edge /= 2;
    }
    None
}

/// Encodes a picture without loss if it has room so, else as JPEG.
fn encoded(picture: &DynamicImage, most: u64) -> Option<(&'static str, Vec<u8>)> {
    let fits = |bytes: &Vec<u8>| bytes.len() as u64 <= most;
    let mut png = Vec::new();
    picture.write_to(&mut Cursor::new(&mut png), ImageFormat::Png).ok()?;
    if fits(&png) {
        return Some(("image/png", png));
    }
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, QUALITY);
    DynamicImage::from(picture.to_rgb8()).write_with_encoder(encoder).ok()?;
    fits(&jpeg).then_some(("image/jpeg", jpeg))
}
