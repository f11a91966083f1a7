//! Who is linked to whom, and what it is called. Nodes are the accelerators and then the switches; links are made accelerator by
//! accelerator, each to all switches, with the accelerator first.

use super::MemoryFabric;
use quincunx_driver_des::{Direction, LinkIndex, NodeIndex};
use quincunx_engine::PortId;

impl MemoryFabric {
    /// How many nodes there are.
    pub(super) const fn nodes(&self) -> u16 {
        self.accelerators + self.switches
    }

    /// What a node is called.
    pub(super) fn name(&self, node: NodeIndex) -> String {
        match node.0.checked_sub(self.accelerators.into()) {
            None => format!("accelerator{}", node.0),
            Some(switch) => format!("switch{switch}"),
        }
    }

    /// All directions of all links, in order.
    pub(super) fn directions(&self) -> impl Iterator<Item = Direction> + use<> {
        let links = u32::from(self.accelerators) * u32::from(self.switches);
        (0..links).map(LinkIndex).flat_map(|link| [link.forward(), link.backward()])
    }

    /// Where a direction begins and ends.
    pub(super) fn ends(&self, direction: Direction) -> [NodeIndex; 2] {
        let (link, switches) = (direction.link.0, u32::from(self.switches));
        let accelerator = NodeIndex(link / switches);
        let switch = NodeIndex(u32::from(self.accelerators) + link % switches);
        if direction.backward { [switch, accelerator] } else { [accelerator, switch] }
    }

    /// What its ends are called.
    pub(super) fn names(&self, direction: Direction) -> [String; 2] {
        self.ends(direction).map(|end| self.name(end))
    }

    /// The direction that begins at a node's port: port s of an accelerator leads to switch s, port n of a switch to
    /// accelerator n.
    pub(super) fn direction_from(&self, node: NodeIndex, port: PortId) -> Direction {
        let switches = u32::from(self.switches);
        match node.0.checked_sub(self.accelerators.into()) {
            None => LinkIndex(node.0 * switches + u32::from(port.0)).forward(),
            Some(switch) => LinkIndex(u32::from(port.0) * switches + switch).backward(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryFabric;
    use quincunx_driver_des::NodeIndex;
    use quincunx_engine::PortId;

    #[test]
    fn every_port_leads_where_its_direction_says() {
        let fabric =
            MemoryFabric { accelerators: 3, switches: 2, ..MemoryFabric::preset("scin-dgx8").unwrap() };
        let mut found = Vec::new();
        for (node, ports) in (0..5).map(|node| (NodeIndex(node), if node < 3 { 2 } else { 3 })) {
            for port in 0..ports {
                let direction = fabric.direction_from(node, PortId(port));
                assert_eq!(fabric.ends(direction)[0], node);
                found.push(direction);
            }
        }
        found.sort();
        assert_eq!(found, fabric.directions().collect::<Vec<_>>());
        assert_eq!(fabric.names(found[2]), ["accelerator0", "switch1"]);
        assert_eq!(fabric.names(found[3]), ["switch1", "accelerator0"]);
    }
}
