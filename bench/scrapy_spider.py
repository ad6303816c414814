"""The peer of bench.crawl: Scrapy follows the same links on the same farm and keeps url, title, text and hash."""

import hashlib
import json
from pathlib import Path

import scrapy
from scrapy.linkextractors import LinkExtractor
from scrapy.resolver import dnscache


class FarmSpider(scrapy.Spider):
    """Follow a[href], area[href], frame[src] and iframe[src] within the farm."""

    name = "farm"
    custom_settings = {
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": 64,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0,
        "USER_AGENT": "BenchCrawler/1.0 (+http://bench.test/)",
        "TELNETCONSOLE_ENABLED": False,
        "RETRY_ENABLED": False,
        "DEPTH_LIMIT": 100,
    }

    def __init__(self, settings, **options):
        super().__init__(**options)
        told = json.loads(Path(settings).read_text())
        self.start_urls = told["seeds"]
        for host, address in told["hosts"].items():
            dnscache[host] = address
        self.extract = LinkExtractor(
            tags=("a", "area", "frame", "iframe"), attrs=("href", "src"), allow=[r"^http://[a-z0-9.-]+\.test:"],
            deny_extensions=["png", "jpg", "gif", "svg", "css", "js", "ico", "zip", "gz", "pdf", "hpp", "cpp"],
        )  # fmt: skip

    def parse(self, response):
        """Keep the page and follow its links."""
        if not isinstance(response, scrapy.http.HtmlResponse):
            return
        text = " ".join(response.xpath("//body//text()[not(parent::script or parent::style)]").getall())
        yield {"url": response.url, "title": response.css("title::text").get(), "text": text,
               "hash": hashlib.blake2b(response.body).hexdigest(), "body": response.text}  # fmt: skip
        for link in self.extract.extract_links(response):
            yield response.follow(link.url, self.parse)
