package operator

import (
	"context"
	"fmt"

	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
)

// Reply writes to a ticket of any account, as a member of the staff.
func (x *Access) Reply(ctx context.Context, id monitor.TicketID, staff, text string) error {
	err := control.New(control.Deps{Store: x.store}).Tickets.Answer(ctx, id, staff, text)
	if fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("there is no ticket %d", id)
	}
	return err
}
