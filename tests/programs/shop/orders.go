package shop

import (
	"strings"

	"github.com/nearcall/nearcall/status"
)

// Prices are in cents.
type (
	// An Order is what a customer wants.
	Order struct {
		Customer string      `nearcall:"customer"`
		Country  string      `nearcall:"country"`
		Lines    []OrderLine `nearcall:"lines"`
		Coupon   *Coupon     `nearcall:"coupon"`
	}

	// An OrderLine is some pieces of one product.
	OrderLine struct {
		SKU       string  `nearcall:"sku"`
		Quantity  int64   `nearcall:"quantity"`
		UnitCents int64   `nearcall:"unit_cents"`
		WeightKg  float64 `nearcall:"weight_kg"`
	}

	// A Coupon takes a share off.
	Coupon struct {
		Code    string `nearcall:"code"`
		Percent int64  `nearcall:"percent"`
	}

	// A Quote is what an order costs.
	Quote struct {
		Lines         []QuoteLine `nearcall:"lines"`
		DiscountCents int64       `nearcall:"discount_cents"`
		ShippingCents int64       `nearcall:"shipping_cents"`
		TaxCents      int64       `nearcall:"tax_cents"`
		TotalCents    int64       `nearcall:"total_cents"`
	}

	// A QuoteLine is what a line of an order costs.
	QuoteLine struct {
		SKU   string `nearcall:"sku"`
		Cents int64  `nearcall:"cents"`
	}
)

const (
	percent             = 100
	taxPercentAbroad    = 20
	taxPercentAtHome    = 19
	home                = "DE"
	shippingCentsBase   = 390
	shippingCentsPerKg  = 95
	freeShippingCents   = 100_000
	manyPieces          = 10
	manyPiecesOffPer100 = 5
)

// PriceOrder prices an order.
func PriceOrder(order Order) (Quote, error) {
	quote := Quote{Lines: make([]QuoteLine, 0, len(order.Lines))}
	subtotal, weight := int64(0), 0.0
	for i, line := range order.Lines {
		if line.Quantity < 1 || line.UnitCents < 0 {
			return Quote{}, status.Errorf(status.InvalidArgument, "line %d: %d pieces of %s at %d cents", i+1, line.Quantity, line.SKU, line.UnitCents)
		}
		cents := line.Quantity * line.UnitCents
		if line.Quantity >= manyPieces {
			cents -= cents * manyPiecesOffPer100 / percent
		}
		quote.Lines = append(quote.Lines, QuoteLine{line.SKU, cents})
		subtotal += cents
		weight += float64(line.Quantity) * line.WeightKg
	}
	if order.Coupon != nil {
		quote.DiscountCents = subtotal * order.Coupon.Percent / percent
	}
	net := subtotal - quote.DiscountCents
	if net < freeShippingCents {
		quote.ShippingCents = shippingCentsBase + int64(weight*shippingCentsPerKg)
	}
	quote.TaxCents = (net + quote.ShippingCents) * taxOf(order.Country) / percent
	quote.TotalCents = net + quote.ShippingCents + quote.TaxCents
	return quote, nil
}

func taxOf(country string) int64 {
	if strings.EqualFold(country, home) {
		return taxPercentAtHome
	}
	return taxPercentAbroad
}
