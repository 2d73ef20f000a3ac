package picture

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation is how a JPEG is to be turned, from 1 to 8, as its camera noted it. A JPEG that is
// made from it has no such note.
func orientation(body []byte) int {
	for at := 2; at+4 <= len(body) && body[at] == 0xff; {
		marker, size := body[at+1], int(binary.BigEndian.Uint16(body[at+2:]))
		if marker == 0xda || size < 2 || at+2+size > len(body) {
			return 1 // the image itself begins
		}
		if exif, ok := bytes.CutPrefix(body[at+4:at+2+size], []byte("Exif\x00\x00")); marker == 0xe1 && ok {
			return noted(exif)
		}
		at += 2 + size
	}
	return 1
}

// coefficients is how many bytes a pixel the decoder of JPEGs needs besides the image: four for each
// sample of a progressive one. What cannot be read here the decoder may read in its own way, so it
// counts as the largest.
func coefficients(body []byte) int64 {
	const most = 4 * 4
	for at := 2; at+4 <= len(body) && body[at] == 0xff; {
		marker, size := body[at+1], int(binary.BigEndian.Uint16(body[at+2:]))
		if marker < 0xc0 || marker >= 0xd0 && marker <= 0xd9 || marker == 0xff || size < 2 || at+2+size > len(body) {
			break // these have no length
		}
		switch frame := body[at+4 : at+2+size]; {
		case marker == 0xc0 || marker == 0xc1:
			return 0
		case marker != 0xc2:
		case len(frame) < 9 || len(frame) < 6+3*int(frame[5]) || frame[7]>>4 == 0 || frame[7]&15 == 0:
			return most
		default: // the first component has a sample for each pixel, and the others may have fewer
			samples, first := 0, int(frame[7]>>4)*int(frame[7]&15)
			for i := range int(frame[5]) {
				samples += int(frame[7+3*i]>>4) * int(frame[7+3*i]&15)
			}
			return int64(4*samples+first-1) / int64(first)
		}
		at += 2 + size
	}
	return most
}

// noted reads the tag 0x0112 of the first directory of a TIFF.
func noted(tiff []byte) int {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(tiff, []byte("II*\x00")):
	case bytes.HasPrefix(tiff, []byte("MM\x00*")):
		order = binary.BigEndian
	default:
		return 1
	}
	if len(tiff) < 8 {
		return 1
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == 0x0112 {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// turn turns an image as an orientation says.
func turn(img *image.RGBA, how int) *image.RGBA {
	if how == 1 {
		return img
	}
	w, h := img.Rect.Dx(), img.Rect.Dy()
	to := image.NewRGBA(image.Rect(0, 0, w, h))
	if how > 4 {
		to = image.NewRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			var tx, ty int
			switch how {
			case 2:
				tx, ty = w-1-x, y
			case 3:
				tx, ty = w-1-x, h-1-y
			case 4:
				tx, ty = x, h-1-y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = h-1-y, x
			case 7:
				tx, ty = h-1-y, w-1-x
			default:
				tx, ty = y, w-1-x
			}
			copy(to.Pix[to.PixOffset(tx, ty):], img.Pix[img.PixOffset(x, y):][:4])
		}
	}
	return to
}
