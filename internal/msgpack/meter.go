package msgpack

// A Meter counts the memory that decoded values take. It may be many times the bytes that
// they came in: one byte may be a struct of hundreds, or an element of a list of any. A nil
// Meter counts nothing. It is used by one goroutine at a time.
type Meter struct {
	Left   int // bytes that may be taken without asking
	Lender Lender
}

// A Lender lets a Meter have more.
type Lender interface {
	// Lend grants at least that many bytes, or says why there are none.
	Lend(bytes int) (granted int, err error)
}

// Bytes of what package reflect and the runtime make, in round numbers.
const (
	anyBytes     = 32 // an element of a list of any, with the number or the head of the text that it points to
	anyPairBytes = 80
)

// Take counts so many elements of that size, before there are any.
func (m *Meter) Take(count int, elementBytes uintptr) error {
	if m == nil {
		return nil
	}
	m.Left -= count * int(elementBytes)
	if m.Left >= 0 {
		return nil
	}
	granted, err := m.Lender.Lend(-m.Left)
	m.Left += granted
	return err
}
