package shop

import "github.com/nearcall/nearcall/status"

// pagesMax is how many pages a session remembers.
const pagesMax = 5

// Visit returns a session after a page was looked at. A session is what a web framework keeps: names with values of any
// kind, most of which are no concern of the shop's and come back as they were.
func Visit(session map[string]any, page string) (map[string]any, error) {
	visits, isNumber := session["visits"].(int64)
	if session["visits"] != nil && !isNumber {
		return nil, status.Errorf(status.InvalidArgument, "visits are %v, expected an integer", session["visits"])
	}
	pages, _ := session["pages"].([]any)
	pages = append(pages, page)
	after := make(map[string]any, len(session)+2)
	for name, value := range session {
		after[name] = value
	}
	after["visits"] = visits + 1
	after["pages"] = pages[max(0, len(pages)-pagesMax):]
	return after, nil
}
