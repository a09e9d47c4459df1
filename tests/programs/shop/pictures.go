package shop

import "github.com/nearcall/nearcall/status"

// ThumbnailOptions say what a picture is, and what is to become of it.
type ThumbnailOptions struct {
	Width     int64 `nearcall:"width"` // of the picture; its height follows from its pixels
	NewWidth  int64 `nearcall:"new_width"`
	NewHeight int64 `nearcall:"new_height"`
	Grey      bool  `nearcall:"grey"`
}

const (
	pixelBytes = 3 // red, green, blue
	sideMax    = 4096
)

// Thumbnail returns a smaller picture: of each part the pixel in its middle.
func Thumbnail(pixels []byte, o ThumbnailOptions) ([]byte, error) {
	if o.Width < 1 || o.Width > sideMax || len(pixels) == 0 || int64(len(pixels))%(o.Width*pixelBytes) != 0 ||
		min(o.NewWidth, o.NewHeight) < 1 || max(o.NewWidth, o.NewHeight) > sideMax {
		return nil, status.Errorf(status.InvalidArgument, "%d bytes are no picture %d pixels wide, or %d by %d is none", len(pixels), o.Width, o.NewWidth, o.NewHeight)
	}
	height := int64(len(pixels)) / (o.Width * pixelBytes)
	small := make([]byte, 0, o.NewWidth*o.NewHeight*pixelBytes)
	for y := range o.NewHeight {
		row := pixels[(2*y+1)*height/(2*o.NewHeight)*o.Width*pixelBytes:]
		for x := range o.NewWidth {
			at := (2*x + 1) * o.Width / (2 * o.NewWidth) * pixelBytes
			red, green, blue := row[at], row[at+1], row[at+2]
			if o.Grey {
				small = append(small, byte((int(red)+int(green)+int(blue))/pixelBytes))
			} else {
				small = append(small, red, green, blue)
			}
		}
	}
	return small, nil
}
