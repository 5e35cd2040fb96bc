"""transporter models: what is shipped."""


def models(json: bool = False) -> None:
    """List the models that come with the package.

    Args:
        json: Print the cards as JSON instead of a table.
    """
    from transporter.cli.console import print_json, say, table
    from transporter.models.zoo import load, shipped

    cards = {name: {**load(name, "cpu").card, "model": load(name, "cpu").config.to_json()} for name in shipped()}
    if json:
        print_json(cards)
    elif not cards:
        say("No models are shipped with this version yet: train one with `transporter train`.")
    else:
        rows = [
            [name, str(card["model"]["keypoints"]), str(card["model"]["size"]), str(card.get("environment", ""))]
            for name, card in cards.items()
        ]
        table("shipped models", ["name", "keypoints", "size", "environment"], rows)
