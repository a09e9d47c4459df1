package chart

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	svgHead   = regexp.MustCompile(`(?s)^.*?<svg [^>]*viewBox="([^"]*)"[^>]*>`)
	svgFont   = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;`)
	svgColour = regexp.MustCompile(`#[0-9A-F]{6}`)
	svgPlain  = regexp.MustCompile(fmt.Sprintf(`font-weight:normal;|font-style:normal;|font-size:%dpx;`, textSize))
	svgNumber = regexp.MustCompile(`-?\d+\.\d+`)
	svgPath   = regexp.MustCompile(` d="([^"]*)"`)
	svgStroke = regexp.MustCompile(`^<path d="([^"]*)" (style="fill:none;[^"]*")/>\n$`)
	svgPoint  = regexp.MustCompile(`([ML])([^,MLAZ]+),([^MLAZ]+)`)
)

// SVG returns the chart as an element for a page that sets the variables --ink,
// --muted, --grid, --ground and --series-1 to --series-8. It is as wide as its place.
func SVG(c Chart) (string, error) {
	w, h := c.size()
	canvas := vgsvg.New(w, h)
	if err := c.draw(draw.New(canvas)); err != nil {
		return "", fmt.Errorf("%s: %w", c.Title(), err)
	}
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return "", err
	}
	names := variables()
	picture := svgFont.ReplaceAllString(out.String(), "")
	picture = svgColour.ReplaceAllStringFunc(picture, func(colour string) string {
		if name := names[colour]; name != "" {
			return "var(--" + name + ")"
		}
		return colour
	})
	picture = svgHead.ReplaceAllString(shorter(picture), fmt.Sprintf(`<svg viewBox="$1" role="img" font-size="%d">`, textSize))
	return strings.Replace(picture, ">", "><title>"+escape(c.Title())+"</title>", 1), nil
}

// shorter takes out of a picture what is as without it: a page has hundreds of
// distributions. A tenth of a unit is less than a pixel.
func shorter(picture string) string {
	picture = svgPlain.ReplaceAllString(picture, "")
	picture = strings.NewReplacer("\n\t", " ", `" />`, `"/>`).Replace(picture)
	picture = svgNumber.ReplaceAllStringFunc(picture, func(number string) string {
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return number
		}
		return strconv.FormatFloat(math.Round(value*10)/10, 'f', -1, 64)
	})
	return oneStroke(svgPath.ReplaceAllStringFunc(picture, straight))
}

// oneStroke makes lines that follow each other and look alike, such as the ticks of an
// axis, one path.
func oneStroke(picture string) string {
	var out strings.Builder
	last := "" // how the path looks that is still open
	for line := range strings.Lines(picture) {
		path, look := "", ""
		if parts := svgStroke.FindStringSubmatch(line); parts != nil {
			path, look = parts[1], parts[2]
		}
		if last != "" && look != last {
			out.WriteString(`" ` + last + "/>\n")
		}
		switch {
		case look == "":
			out.WriteString(line)
		case look != last:
			out.WriteString(`<path d="` + path)
		default:
			out.WriteString(path)
		}
		last = look
	}
	return out.String()
}

// straight writes lines that go along an axis by that axis alone.
func straight(path string) string {
	if strings.Contains(path, "A") {
		return path
	}
	x, y := "", ""
	return svgPoint.ReplaceAllStringFunc(path, func(point string) string {
		parts := svgPoint.FindStringSubmatch(point)
		lastX, lastY := x, y
		x, y = parts[2], strings.TrimRight(parts[3], `"`)
		end := strings.TrimPrefix(parts[3], y)
		switch {
		case parts[1] == "M":
		case x == lastX && y == lastY:
			return end
		case y == lastY:
			return "H" + x + end
		case x == lastX:
			return "V" + y + end
		}
		return parts[1] + x + "," + y + end
	})
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
