package main

import (
	"bytes"
	"fmt"
	"html/template"
	"io"

	"github.com/alecthomas/chroma/v2/quick"
	"github.com/spf13/viper"
	"github.com/yuin/goldmark"
	highlighting "github.com/yuin/goldmark-highlighting/v2"
	"github.com/yuin/goldmark/extension"
)

// fence is the line before and after front matter.
const fence = "---\n"

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Language}}">
<meta charset="utf-8">
<title>{{.Title}}</title>
{{.Body}}</html>
`))

func defaults() *viper.Viper {
	settings := viper.New()
	settings.SetConfigType("yaml")
	settings.SetDefault("style", "github")
	settings.SetDefault("language", "en")
	return settings
}

// split takes the front matter off a page and lays it over the settings.
func split(settings *viper.Viper, page []byte) (_ *viper.Viper, text []byte, err error) {
	rest, found := bytes.CutPrefix(page, []byte(fence))
	if !found {
		return settings, page, nil
	}
	matter, text, found := bytes.Cut(rest, []byte("\n"+fence))
	if !found {
		return nil, nil, fmt.Errorf("the front matter has no end: write a line of three hyphens after it")
	}
	settings.SetConfigType("yaml")
	if err := settings.MergeConfig(bytes.NewReader(matter)); err != nil {
		return nil, nil, fmt.Errorf("front matter: %w", err)
	}
	return settings, text, nil
}

func writeHTML(out io.Writer, settings *viper.Viper, text []byte) error {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM, extension.Footnote,
		highlighting.NewHighlighting(highlighting.WithStyle(settings.GetString("style")))))
	var body bytes.Buffer
	if err := markdown.Convert(text, &body); err != nil {
		return err
	}
	return layout.Execute(out, struct {
		Language, Title string
		Body            template.HTML
	}{settings.GetString("language"), settings.GetString("title"), template.HTML(body.String())})
}

// writeTerminal shows the text itself, in colours where somebody sees them.
func writeTerminal(out io.Writer, settings *viper.Viper, text []byte, colours bool) error {
	formatter := "noop"
	if colours {
		formatter = "terminal256"
	}
	return quick.Highlight(out, string(text), "markdown", formatter, settings.GetString("style"))
}
