// Package shop is a shop's back end as it moves to Go function by function: it prices orders, searches a
// catalogue, keeps sessions, counts events, makes thumbnails and forecasts sales. The benchmarks measure
// its calls beside those of functions that were made for measuring, so that what is quick there is quick for
// signatures that nobody had in mind.
//
// It is registered as the guide for Go shows it, and asks for nothing that an ordinary program leaves out.
package shop

import "github.com/nearcall/nearcall/server"

// Register registers all functions.
func Register(s *server.Server) {
	all := NewCatalogue()
	s.Register("price_order", PriceOrder, server.Doc("What an order costs, line by line and in all."), server.Params("order"), server.Idempotent())
	s.Register("search", all.Search, server.Doc("The products whose names have all words of a text, the best first."),
		server.Params("text", "limit"), server.Idempotent())
	s.Register("visit", Visit, server.Doc("A session after a page was looked at."), server.Params("session", "page"))
	s.Register("summarise", Summarise, server.Doc("Counts events by what they are and by page."), server.Params("events"), server.Idempotent())
	s.Register("thumbnail", Thumbnail, server.Doc("A smaller picture."), server.Params("pixels", "options"), server.Idempotent())
	s.Register("forecast", Forecast, server.Doc("What is sold in the days to come, with a range for each day."),
		server.Params("history", "days"), server.Idempotent())
}
