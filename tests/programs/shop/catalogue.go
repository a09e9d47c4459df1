package shop

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nearcall/nearcall/status"
)

// A Product is what is sold.
type Product struct {
	ID         int64    `nearcall:"id"`
	Name       string   `nearcall:"name"`
	PriceCents int64    `nearcall:"price_cents"`
	Rating     float64  `nearcall:"rating"`
	InStock    bool     `nearcall:"in_stock"`
	Tags       []string `nearcall:"tags"`
}

// A Catalogue is all products, with an index of the words of their names. It does not change.
type Catalogue struct {
	products []Product
	with     map[string][]int // places of products by a word, the best first
}

// limitMax is the most products that one search finds.
const limitMax = 100

// NewCatalogue returns one that is always the same.
func NewCatalogue() *Catalogue {
	c := &Catalogue{with: map[string][]int{}}
	for _, colour := range strings.Fields("red blue green black white") {
		for _, material := range strings.Fields("steel oak linen glass clay") {
			for _, thing := range strings.Fields("lamp chair table bowl clock shelf vase stool mirror rug tray bench basket candle frame hook jug plate cup box") {
				c.products = append(c.products, product(int64(len(c.products)+1), colour, material, thing))
			}
		}
	}
	slices.SortStableFunc(c.products, func(a, b Product) int { return cmp.Compare(b.Rating, a.Rating) })
	for i, p := range c.products {
		for word := range strings.FieldsSeq(p.Name) {
			c.with[word] = append(c.with[word], i)
		}
	}
	return c
}

// product makes up what nobody has measured or weighed.
func product(id int64, colour, material, thing string) Product {
	return Product{
		ID: id, Name: colour + " " + material + " " + thing, PriceCents: 500 + id*7919%20_000,
		Rating: float64(10+id*31%41) / 10, InStock: id*13%50 > 0, Tags: []string{material, thing},
	}
}

// Search returns the products whose names have all words of a text, at most limit of them, the best first.
func (c *Catalogue) Search(text string, limit int64) ([]Product, error) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || limit < 1 || limit > limitMax {
		return nil, status.Errorf(status.InvalidArgument, "search(%q, %d): expected a word, and a limit of 1 to %d", text, limit, limitMax)
	}
	found := make([]Product, 0, limit)
	for _, place := range c.with[words[0]] {
		if !c.hasAll(place, words[1:]) {
			continue
		}
		found = append(found, c.products[place])
		if len(found) == int(limit) {
			break
		}
	}
	return found, nil
}

func (c *Catalogue) hasAll(place int, words []string) bool {
	for _, word := range words {
		if _, has := slices.BinarySearch(c.with[word], place); !has {
			return false
		}
	}
	return true
}
