"""The shop's job that pays back what is due: it reads the list page by page, and works it off."""

from urllib.parse import quote, urlencode

from chaos.clients import SALES, Client
from chaos.record import Listing

APART = (0.3, 3.0)  # seconds between two runs of the job
PAGE = 20           # payments of a page, so that most lists have several
GIVES_UP = 0.1      # of the runs end before all is paid back, as those of a job that dies


class Lists(Client):
    """Reads lists of payments."""

    def list_payments(self, daemon, sku=None, state="refund_due", limit=PAGE, as_operator=False):
        """The rows of all pages; None when a page was not answered."""
        rows, after = [], ""
        query = {"state": state, "sku": sku, "limit": limit}
        path = "/payments?" + urlencode({name: value for name, value in query.items() if value})
        headers = {}
        if as_operator:
            path = "/admin" + path
            headers["Authorization"] = f"Bearer {self.cluster.daemons[daemon].token}"
        while True:
            answer, content = self.send(daemon, "GET", path + after, headers=headers)
            self.record.add_other("payments", answer)
            if answer != "200":
                return None
            rows += content["payments"]
            if "next" not in content:
                return rows
            after = "&after=" + quote(content["next"], safe="")

    def list_due(self, daemon, sku=None, **options):
        """The rows, of which the checks learn, too; None as above."""
        start = self.record.now()
        rows = self.list_payments(daemon, sku, **options)
        if rows is not None:
            self.record.add_listing(Listing(start, self.record.now(), sku, rows))
        return rows

    def audit(self, daemon, sku):
        """What all pages of the service's own audit say of a sale; None as above."""
        headers = {"Authorization": f"Bearer {self.cluster.daemons[daemon].token}"}
        sales, after = [], ""
        while True:
            answer, content = self.send(daemon, "GET", f"/admin/audit?sku={sku}{after}",
                                        headers=headers)
            self.record.add_other("audit", answer)
            if answer != "200":
                return None
            sales += content["sales"]
            if "next" not in content:
                return sales
            after = "&after=" + content["next"]

    def work_off(self, daemons, rows):
        """Pays back, at these daemons in turn, and says so. Returns the answers."""
        return [self.call("refund", daemons[number % len(daemons)], row["order_id"],
                          ref=row["payment_ref"], restock=number % 3 == 0)
                for number, row in enumerate(rows)]


class ShopJob(Lists):
    """The job runs again and again."""

    def __init__(self, cluster, record, seed):
        super().__init__(cluster, record, f"shop {seed}")

    def run(self, stop):
        try:
            while not stop.wait(self.random.uniform(*APART)):
                self.run_job(stop)
        finally:
            self.close()

    def run_job(self, stop):
        daemon = self.random.randrange(len(self.cluster.daemons))
        rows = self.list_due(daemon, self.random.choice((None, *SALES)),
                             as_operator=self.random.random() < 0.3) or []
        if self.random.random() < GIVES_UP:
            rows = rows[:self.random.randint(0, len(rows))]
        for number, row in enumerate(rows):
            if stop.is_set():
                break
            self.work_off([(daemon + number) % len(self.cluster.daemons)], [row])
