package shop_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/nearcall/nearcall/status"
	"github.com/nearcall/nearcall/tests/programs/shop"
)

func TestPriceOrder(t *testing.T) {
	order := shop.Order{Country: "de", Lines: []shop.OrderLine{{"a", 2, 1_000, 0.5}, {"b", 10, 100, 0.1}}, Coupon: &shop.Coupon{Percent: 10}}
	quote, err := shop.PriceOrder(order)
	// 2000 + 950, less 295; 390 and 95 for each of two kilograms; 19 % of 3235.
	want := shop.Quote{Lines: []shop.QuoteLine{{"a", 2_000}, {"b", 950}}, DiscountCents: 295, ShippingCents: 580, TaxCents: 614, TotalCents: 3_849}
	if err != nil || !reflect.DeepEqual(quote, want) {
		t.Errorf("%+v, %v", quote, err)
	}
	order.Lines[1].Quantity = 0
	_, err = shop.PriceOrder(order)
	refused(t, "a line of nothing", err)
}

func TestSearch(t *testing.T) {
	all := shop.NewCatalogue()
	found, err := all.Search("Oak BLUE", 5)
	if err != nil || len(found) != 5 || found[0].Name != "blue oak box" || !slices.Equal(found[0].Tags, []string{"oak", "box"}) {
		t.Errorf("%+v, %v", found, err)
	}
	if !slices.IsSortedFunc(found, func(a, b shop.Product) int { return int(10 * (b.Rating - a.Rating)) }) {
		t.Errorf("the best are not first: %+v", found)
	}
	for text, count := range map[string]int{"lamp": 25, "blue oak lamp": 1, "blue red": 0, "sofa": 0} {
		if found, err := all.Search(text, 100); err != nil || len(found) != count {
			t.Errorf("%q: %d products, %v", text, len(found), err)
		}
	}
	_, err = all.Search(" ", 5)
	refused(t, "no words", err)
	_, err = all.Search("lamp", 0)
	refused(t, "no products", err)
}

func TestVisit(t *testing.T) {
	session := map[string]any{"pages": []any{"1", "2", "3", "4", "5"}, "theme": nil}
	after, err := shop.Visit(session, "6")
	want := map[string]any{"pages": []any{"2", "3", "4", "5", "6"}, "theme": nil, "visits": int64(1)}
	if err != nil || !reflect.DeepEqual(after, want) {
		t.Errorf("%v, %v", after, err)
	}
	_, err = shop.Visit(map[string]any{"visits": "many"}, "1")
	refused(t, "visits that are no number", err)
}

func TestSummarise(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	summary, err := shop.Summarise([]shop.Event{
		{Kind: "view", At: noon, Properties: map[string]string{"page": "/"}},
		{Kind: "add", At: noon.Add(-time.Second), Properties: map[string]string{"page": "/"}},
		{Kind: "view", At: noon.Add(time.Second)},
	})
	want := shop.Summary{First: noon.Add(-time.Second), Last: noon.Add(time.Second), Kinds: map[string]int64{"view": 2, "add": 1}, Pages: map[string]int64{"/": 2, "": 1}}
	if err != nil || !reflect.DeepEqual(summary, want) {
		t.Errorf("%+v, %v", summary, err)
	}
	_, err = shop.Summarise(nil)
	refused(t, "no events", err)
}

func TestThumbnail(t *testing.T) {
	pixels := []byte{0, 0, 0, 10, 20, 30, 0, 0, 0, 40, 50, 60} // four, in one row
	for grey, want := range map[bool][]byte{false: {10, 20, 30, 40, 50, 60}, true: {20, 50}} {
		if small, err := shop.Thumbnail(pixels, shop.ThumbnailOptions{Width: 4, NewWidth: 2, NewHeight: 1, Grey: grey}); err != nil || !slices.Equal(small, want) {
			t.Errorf("grey %v: %v, %v", grey, small, err)
		}
	}
	for _, o := range []shop.ThumbnailOptions{{}, {Width: 3, NewWidth: 1, NewHeight: 1}, {Width: 4, NewWidth: 1 << 40, NewHeight: 1}, {Width: 1 << 62, NewWidth: 1, NewHeight: 1}} {
		_, err := shop.Thumbnail(pixels, o)
		refused(t, "no such picture", err)
	}
	_, err := shop.Thumbnail(nil, shop.ThumbnailOptions{Width: 1, NewWidth: 1, NewHeight: 1})
	refused(t, "no pixels", err)
}

func TestForecast(t *testing.T) {
	outlook, err := shop.Forecast([]float64{10, 12, 14, 16}, 2)
	want := shop.Outlook{Level: 16, Trend: 2, Expected: []float64{18, 20}, Least: []float64{18, 20}, Most: []float64{18, 20}}
	if err != nil || !reflect.DeepEqual(outlook, want) {
		t.Errorf("%+v, %v", outlook, err)
	}
	if outlook, err = shop.Forecast([]float64{10, 20, 10, 20}, 1); err != nil || outlook.Least[0] >= outlook.Expected[0] || outlook.Most[0] <= outlook.Expected[0] {
		t.Errorf("of what goes up and down: %+v, %v", outlook, err)
	}
	_, err = shop.Forecast([]float64{10}, 2)
	refused(t, "one day", err)
	_, err = shop.Forecast([]float64{10, 12}, 0)
	refused(t, "no days", err)
}

func refused(t *testing.T, what string, err error) {
	t.Helper()
	var failure *status.Error
	if !errors.As(err, &failure) || failure.Code != status.InvalidArgument {
		t.Errorf("%s: %v", what, err)
	}
}
